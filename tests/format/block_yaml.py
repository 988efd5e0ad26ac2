"""The subset of YAML that writers of locks and inventories use (section 9 of src/bundle/FORMAT.md)."""

import json
import re


def scalar(text):
    if text[:1] == '"':
        return json.loads(text)
    if text[:1] == "'":
        return text[1:-1].replace("''", "'")
    if text in ("[]", "{}", "null", "~"):
        return {"[]": [], "{}": {}}.get(text)
    return int(text) if re.fullmatch("[0-9]+", text) else text


class Parser:

    def __init__(self, text):
        lines = [line for line in text.splitlines() if line.strip()]
        self.lines = [(len(line) - len(line.lstrip()), line.strip()) for line in lines]

    def value(self, text, indent):
        """What follows a key or a dash in a line of this indentation."""
        following = self.lines[0] if self.lines else (-1, "")
        if text in (">-", ">", "|-", "|"):
            parts = []
            while self.lines and self.lines[0][0] > indent:
                parts.append(self.lines.pop(0)[1])
            return (" " if text[0] == ">" else "\n").join(parts)
        if text:
            return scalar(text)
        if following[0] > indent or following[0] == indent and following[1].startswith("- "):
            return self.block(following[0])
        return None

    def block(self, indent):
        is_list = self.lines[0][1].startswith("- ")
        result = [] if is_list else {}
        while self.lines and self.lines[0][0] == indent and self.lines[0][1].startswith("- ") == is_list:
            _, text = self.lines.pop(0)
            if is_list:
                item = text[2:].lstrip()
                if re.match(r"[A-Za-z]+:( |$)", item):
                    self.lines.insert(0, (indent + len(text) - len(item), item))
                    result.append(self.block(indent + len(text) - len(item)))
                else:
                    result.append(self.value(item, indent))
            else:
                key, _, rest = text.partition(":")
                if key in result:
                    raise ValueError(f"{key} occurs twice")
                result[key] = self.value(rest.strip(), indent)
        return result


def parse(text):
    return Parser(text).block(0)
