"""The golden grammars and schemas as one file each: grammar_corpus DATA CORPUS."""
import json
import pathlib
import sys

data, corpus = map(pathlib.Path, sys.argv[1:])
for case in json.loads((data / "gbnf.json").read_text()):
    (corpus / case["id"]).write_text(case["grammar"])
for case in json.loads((data / "json_schema.json").read_text()):
    (corpus / case["id"]).write_text(json.dumps(case["schema"]))
