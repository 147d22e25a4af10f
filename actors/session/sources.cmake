list(APPEND decision_sources session/answer_run.cpp session/answer_text.cpp session/conversation.cpp
  session/delivered_text.cpp
  session/event_log.cpp session/parameters.cpp session/portable.cpp session/settings_json.cpp session/stop_strings.cpp)
list(APPEND actor_sources session/session_actor.cpp session/session_answers.cpp)
