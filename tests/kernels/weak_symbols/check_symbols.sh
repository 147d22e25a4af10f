#!/bin/sh
# check_symbols.sh NM OBJECT...: fails if an object defines a weak symbol, or an external one other than a kernel set.
nm=$1
shift
[ $# -ge 4 ] || { echo "expected the objects of both instruction sets, got $#"; exit 1; }
status=0
for object in "$@"; do
    [ -s "$object" ] || { echo "$object: missing"; exit 1; }
    defined=$("$nm" --defined-only --demangle "$object") || exit 1
    case $defined in *kernel_set*) ;; *) echo "$object: exports no kernel set"; status=1 ;; esac
    # DW.ref.* is a pointer to the unwinder's routine, not code.
    extra=$(printf '%s\n' "$defined" | awk '$2 ~ /[VWuvwABCDGRSTi]/ && $0 !~ /kernel_set$|DW.ref/')
    if [ -n "$extra" ]; then
        echo "$object exports:"
        printf '%s\n' "$extra"
        status=1
    fi
done
exit $status
