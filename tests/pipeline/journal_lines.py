"""A good line of a journal, and lines that are none, with the reason."""

import json

GOOD = {
    "v": 1, "replica": "r", "boot": "b", "seq": 1, "time_us": 1, "kind": "started", "group": "", "mode": "",
    "protocol": "", "member": "", "instance": None, "client_id": None, "client_host": "", "software": "",
    "generation": -1, "epoch": -1, "state": "", "previous_state": "", "partitions": [], "owned": None, "reason": "",
}  # fmt: skip
BAD = {
    "no JSON at all": "not JSON",
    json.dumps(GOOD)[:-20]: "not JSON",
    "": "not JSON",
    "[1, 2]": "no version of the schema",
    json.dumps({**GOOD, "v": 2, "owned": {"new": "form"}}): "schema version 2 is not known",
    json.dumps({**GOOD, "seq": "one"}): "a field has another type than the schema says",
    json.dumps(
        {name: value for name, value in GOOD.items() if name != "time_us"}
    ): "field 'time_us' is missing",
    json.dumps({**GOOD, "kind": "exploded"}): "kind 'exploded' is not known",
    json.dumps({**GOOD, "owned": "everything"}): "field 'owned' is not a list",
}
BAD_SNAPSHOT = json.dumps(
    {**GOOD, "seq": 2, "kind": "assigned", "group": "g", "member": "m", "owned": [{"topic": 1}]}
)
