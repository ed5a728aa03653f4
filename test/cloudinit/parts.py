# Reads user data in base64, one per line, and prints per line what cloud-init makes of it: a JSON list
# of parts, each with type, file name, merge type and content.
import base64
import json
import logging
import sys
import tempfile

from cloudinit import helpers, user_data, util

logging.disable(logging.CRITICAL)


class Response:
    contents = b"#cloud-config\nhostname: included\n"
    code = 200

    def ok(self):
        return True


user_data.read_file_or_url = lambda *args, **kwargs: Response()
directory = tempfile.TemporaryDirectory()
processor = user_data.UserDataProcessor(helpers.Paths({"cloud_dir": directory.name, "run_dir": directory.name}))
for line in sys.stdin:
    parts = []
    for part in processor.process(base64.b64decode(line)).walk():
        if part.get_content_maintype() == "multipart":
            continue
        content = util.fully_decoded_payload(part)
        if isinstance(content, str):
            content = content.encode("utf-8", "surrogateescape")
        parts.append({
            "type": part.get_content_type(),
            "name": part.get_filename(),
            "merge": part["Merge-Type"],
            "content": base64.b64encode(content).decode(),
        })
    print(json.dumps(parts))
