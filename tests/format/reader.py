#!/usr/bin/env python3
"""Reads kubexm's bundles, written from src/bundle/FORMAT.md alone. Needs the `zstd` program.

usage: reader.py list BUNDLE              name, versions, and every blob with size and encoding
       reader.py list LOCK.yaml           every blob of a lock with its size
       reader.py extract BUNDLE HEX OUT   one blob as its publisher made it (not decompressed gzip)
       reader.py content BUNDLE HEX OUT   what is stored for a blob: the blob, or the content of a gzip blob
       reader.py verify BUNDLE [FOLDER]   the content of every blob, compared with its digest; written as FOLDER/HEX
       reader.py proven BUNDLE            the blobs whose content the builder proved
       reader.py signature BUNDLE         what the signature claims; this reader does not verify it
       reader.py inventory FILE           the site, its bundles and its blobs

HEX is the beginning of the hexadecimal digits of a digest.
"""

import hashlib
import json
import pathlib
import re
import struct
import subprocess
import sys

import block_yaml
import elf_filter

MIB = 1 << 20


def require(condition, reason):
    if not condition:
        sys.exit(f"refused: {reason}")


def sha256(content):
    return "sha256:" + hashlib.sha256(content).hexdigest()


def tar_header(name, size):
    """Section 4."""
    digits = b"%011o\0" % size if size < 1 << 33 else b"\x80\0\0\0" + struct.pack(">Q", size)
    block = name.encode().ljust(100, b"\0") + b"0000644\0" + b"0000000\0" * 2 + digits
    block += b"00000000000\0" + b" " * 8 + b"0" + bytes(100) + b"ustar  \0"
    block = block.ljust(512, b"\0")
    return block[:148] + b"%07o\0" % sum(block) + block[156:]


def unzstd(packed):
    command = ["zstd", "-dcq", "--long=26"]
    return subprocess.run(command, input=packed, stdout=subprocess.PIPE, check=True).stdout


class Lock:
    """Section 9.6: the sizes of all blobs, and what `kubexm bundle list` names."""

    def __init__(self, text):
        lock = self.document = block_yaml.parse(text.decode())
        require(lock["lockVersion"] in (1, 2, 3, 4, 5, 6), f"lock of version {lock['lockVersion']}")
        self.check_trust()
        self.sizes, self.items = {}, []

        def add(blob):
            require(self.sizes.setdefault(blob["digest"], blob["size"]) == blob["size"], "two sizes")

        for file in lock["files"]:
            self.items.append(("file", file["digest"], f"{file['component']} {file['version']} {file['arch']}"))
            signature = file.get("signature", {})
            for blob in [file] + [signature[key] for key in ("signature", "certificate") if key in signature]:
                add(blob)
        for image in lock["images"]:
            platforms, signature = image["platforms"], image.get("signature")
            arches = [platform["arch"] for platform in platforms if "arch" in platform]
            require(len(arches) in (0, len(platforms)), "platforms with and without an architecture")
            kind, name = ("image", f"{image['name']} ({', '.join(arches)})") if arches else ("artifact", image["name"])
            self.items.append((kind, image["manifest"]["digest"], name))
            blobs = [image["manifest"]] + [b for p in platforms for b in [p["manifest"]] + p.get("indexes", []) + p["blobs"]]
            if signature:
                blobs += [signature["manifest"], *signature["blobs"]]
                blobs += [signature["referrers"]] if "referrers" in signature else []
            for blob in blobs:
                add(blob)
        for own in lock.get("own", []):
            add(own)
            self.items.append((own["kind"], own["digest"], " ".join([own["name"], own.get("version", "")]).strip()))
        for group in lock["packages"]:
            add(group["index"])
            place = f"{group['distribution']} {group['release']} {group['arch']}"
            for package in group["packages"]:
                add(package)
                self.items.append(("package", package["digest"], f"{package['name']} {package['version']} ({place})"))

    def check_trust(self):
        """Sections 9.2 and 9.3: the trust basis, and what only version 2 has."""
        lock = self.document
        items = lock["files"] + lock["images"] + lock.get("own", [])
        new = [i for i in lock["images"] if "checksum" in i] + [i for i in items if "unsigned" in i]
        for item in items:
            checksum = item.get("checksum")
            require(checksum != "signed" or "signature" in item, "signed without a signature")
            new += [item] if checksum in ("signed", "notRecorded") or isinstance(checksum, dict) and "mirror" in checksum else []
        require(lock["lockVersion"] > 1 or not new, "members of version 2 in version 1")
        linked = [p for f in lock["files"] for p in [f, *f.get("members", [])] if "linking" in p]
        require(lock["lockVersion"] > 2 or not linked, "members of version 3 in an earlier version")

        nested = [p for image in lock["images"] for p in image["platforms"] if "indexes" in p]
        require(lock["lockVersion"] > 3 or not nested, "members of version 4 in an earlier version")
        artifacts = [p for image in lock["images"] for p in image["platforms"] if "arch" not in p]
        require(lock["lockVersion"] > 4 or not artifacts, "members of version 5 in an earlier version")
        require(lock["lockVersion"] > 5 or "imagePaths" not in lock, "members of version 6 in an earlier version")

    def list(self, encoding):
        for digest, size in sorted(self.sizes.items()):
            print(f"blob {digest[7:]} {size} {encoding(digest)}")
        for kind, digest, name in self.items:
            print(f"{kind} {digest[7:]} {name}")


class Bundle:
    def __init__(self, path):
        path = pathlib.Path(path)
        volumes = sorted(path.parent.glob(path.name + ".[0-9][0-9][0-9]*"), key=lambda v: int(v.suffix[1:]))
        files = [path] if path.exists() else volumes
        self.bytes = b"".join(file.read_bytes() for file in files)
        self.read_table()
        self.read_header()
        self.read_placement()

    def read_table(self):
        """Section 3.2."""
        data = self.bytes
        require(len(data) >= 64 and data[:4] == b"\x28\xb5\x2f\xfd", "not a bundle")
        count, descriptor, magic = struct.unpack("<IBI", data[-9:])
        size = 17 + 8 * count
        require(magic == 0x8F92EAB1 and descriptor == 0 and size <= min(16 * MIB, len(data)), "cut off")
        table = data[-size:]
        require(struct.unpack("<II", table[:8]) == (0x184D2A5E, size - 8), "bad seek table")
        self.frames = list(struct.iter_unpack("<II", table[8:-9]))
        require(sum(frame[0] for frame in self.frames) == len(data) - size, "the seek table does not fit")
        require(len(self.frames) >= 2, "no frames")

    def read_header(self):
        """Section 5."""
        packed, plain = self.frames[0]
        require(plain <= 64 * MIB, "header too large")
        rest, entries = unzstd(self.bytes[:packed]), {}
        require(len(rest) == plain, "the header is not as large as the seek table says")
        while rest:
            name, size = rest[:100].rstrip(b"\0").decode(), int(rest[124:135], 8)
            content = rest[512:512 + size]
            require(rest[:512] == tar_header(name, size), f"tar header of {name}")
            require(re.fullmatch(r"oci-layout|index\.json(\.minisig)?|kubexm\.storage\.json|blobs/sha256/[0-9a-f]{64}", name), name)
            require(name not in entries and len(entries) < 7, f"too many entries: {name}")
            require(not name.startswith("blobs/") or sha256(content)[7:] == name[13:], f"{name} is damaged")
            entries[name] = content
            rest = rest[512 + size + -size % 512:]
        require(entries["oci-layout"] == b'{"imageLayoutVersion":"1.0.0"}', "oci-layout")

        def blob(descriptor):
            content = entries["blobs/sha256/" + descriptor["digest"][7:]]
            require(len(content) == descriptor["size"], f"size of {descriptor['digest']}")
            return content

        index = json.loads(entries["index.json"])
        artifact = "application/vnd.kubexm.bundle.v1"
        manifest = json.loads(blob(next(m for m in index["manifests"] if m.get("artifactType") == artifact)))
        lock = next(m for m in manifest["layers"] if m["mediaType"] == "application/vnd.kubexm.lock.v1+yaml")
        self.lock_text = blob(lock)
        self.lock = Lock(self.lock_text)
        self.sizes = self.lock.sizes
        self.placement = json.loads(entries["kubexm.storage.json"])
        config = manifest["config"]
        proven = config["mediaType"] == "application/vnd.kubexm.recompression.v1+json"
        self.proven = json.loads(blob(config))["gzip"] if proven else {}
        self.signature = entries.get("index.json.minisig")
        images = self.lock.document["images"]
        tops = [i["manifest"] for i in images] + [i["signature"]["manifest"] for i in images if "signature" in i]
        named = {(top["digest"], top["size"]) for top in tops}
        others = [m for m in index["manifests"] if m.get("artifactType") != artifact]
        require(all((m["digest"], m["size"]) in named for m in others), "the index names what the lock does not")

    def statement(self):
        """Section 10.1: creation time and sequence number, or why there are none."""
        if self.signature is None:
            return "not signed"
        comment = self.signature.decode().splitlines()[2].removeprefix("trusted comment: ")
        if not comment.startswith("kubexm bundle "):
            return "signed by another program"
        form = r"kubexm bundle (\S+), lock (sha256:[0-9a-f]{64})(?:, created (\S+), sequence (0|[1-9][0-9]*))?"
        parts = re.fullmatch(form, comment)
        require(parts, f"trusted comment {comment}")
        name, lock, created, sequence = parts.groups()
        require(name == self.lock.document["name"] and lock == sha256(self.lock_text), "the comment is of another bundle")
        if created is None:
            return "no creation time and no sequence number"
        require(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", created), created)
        require(int(sequence) < 1 << 53, sequence)
        return f"created {created}, sequence {sequence}"

    def read_placement(self):
        """Sections 6, 7 and 3.1: where the chunks of each blob are."""
        placement, self.entries, self.groups = self.placement, {}, []
        version = placement["storageVersion"]
        require(version in (1, 2, 3), f"bundle of version {version}")
        offset, frames = self.frames[0][0], self.frames[1:]
        for group in placement["groups"]:
            chunks, names = group.get("pieces", 1), []
            require(1 <= chunks <= 1024 and group["entries"], "group")
            require(chunks == 1 or len(group["entries"]) <= 128, "group")
            for number in range(chunks):
                for entry in group["entries"]:
                    size = self.stored_size(entry)
                    length = size * (number + 1) // chunks - size * number // chunks
                    names.append((entry["blob"], self.chunk_name(entry, chunks, number), length))
            plain = sum(512 + length + -length % 512 for _, _, length in names)
            start = offset
            while plain:
                packed, size = frames.pop(0)
                require(size == min(plain, 1 << 30), "frame sizes")
                plain, offset = plain - size, offset + packed
            for entry in group["entries"]:
                require(entry["blob"] not in self.entries, f"{entry['blob']} has two places")
                require(not entry.get("filtered") or version == 3, "filter of an earlier version")
                self.entries[entry["blob"]] = (entry, len(self.groups))
                opened, proven = entry.get("opened"), self.proven.get(entry["blob"])
                same = not opened or not proven or all(opened[key] == proven[key] for key in ("content", "size"))
                require(same, f"the placement document has another content of {entry['blob']}")
            self.groups.append((start, offset, names))
        require(len(frames) == 1 and frames[0][1] == 1024, "end frame")
        self.absent = set(placement.get("base", {}).get("blobs", []))
        require(set(self.entries) | self.absent == set(self.sizes), "places and blobs differ")
        require(not set(self.entries) & self.absent, "places and base overlap")

    def stored_size(self, entry):
        return entry["opened"]["size"] if "opened" in entry else self.sizes[entry["blob"]]

    @staticmethod
    def chunk_name(entry, chunks, number):
        folder = "-".join(word for word in ("opened", "filtered") if entry.get(word))
        if not folder and chunks == 1:
            return "blobs/sha256/" + entry["blob"][7:]
        return f"{folder or 'pieces'}/{entry['blob'][7:]}/{number:04}"

    def read_group(self, number):
        """The stored bytes of every entry of a group; filters are undone and digests compared."""
        start, end, chunks = self.groups[number]
        plain, at, stored = unzstd(self.bytes[start:end]), 0, {}
        for digest, name, size in chunks:
            require(plain[at:at + 512] == tar_header(name, size), f"tar header of {name}")
            stored.setdefault(digest, bytearray()).extend(plain[at + 512:at + 512 + size])
            padding = plain[at + 512 + size:at + 512 + size + -size % 512]
            require(not any(padding) and len(padding) == -size % 512, f"padding of {name}")
            at += 512 + size + len(padding)
        require(at == len(plain), "something follows the group")
        for digest in stored:
            entry = self.entries[digest][0]
            content = bytes(stored[digest])
            content = elf_filter.undo(content) if entry.get("filtered") else content
            expected = entry["opened"]["content"] if "opened" in entry else digest
            require(sha256(content) == expected, f"{digest} is damaged")
            stored[digest] = content
        return stored

    def find(self, digits):
        found = [digest for digest in self.entries if digest[7:].startswith(digits)]
        require(len(found) == 1, f"{len(found)} stored blobs begin with {digits}")
        return found[0]

    def encoding(self, digest):
        if digest in self.absent:
            return "absent"
        entry = self.entries[digest][0]
        name = f"gzip({entry['opened']['encoder']})" if "opened" in entry else "kept"
        return name + ("+elf" if entry.get("filtered") else "")

    def list(self):
        versions = f"bundle {self.placement['storageVersion']}, lock {self.lock.document['lockVersion']}"
        signed = ", signed" if self.signature else ""
        print(f"{self.lock.document['name']} ({versions}{signed}) {sha256(self.lock_text)}")
        self.lock.list(self.encoding)

    def list_proven(self):
        """Section 5.3."""
        opened = {digest: entry["opened"] for digest, (entry, _) in self.entries.items() if "opened" in entry}
        return (f"{digest[7:]}\n" for digest in sorted(opened) if self.proven.get(digest) == opened[digest])

    def verify(self, folder=None):
        for number in range(len(self.groups)):
            for digest, content in self.read_group(number).items():
                if folder:
                    pathlib.Path(folder, digest[7:]).write_bytes(content)
        require(unzstd(self.bytes[self.groups[-1][1] if self.groups else self.frames[0][0]:]) == bytes(1024), "end")
        print(f"{len(self.entries)} of {len(self.sizes)} blobs are stored, and are right")

    def extract(self, digits, out, blob):
        digest = self.find(digits)
        entry, group = self.entries[digest]
        require(not blob or "opened" not in entry, f"{digest} is stored as its content: {self.encoding(digest)}")
        pathlib.Path(out).write_bytes(self.read_group(group)[digest])


def inventory(path):
    """Section 13."""
    document = block_yaml.parse(pathlib.Path(path).read_text())
    require(document["inventoryVersion"] == 1, "inventory of another version")
    print(document["site"])
    for bundle in document["bundles"]:
        print(f"bundle {bundle['name']} {bundle['lock']}")
    for blob in document["blobs"]:
        print(f"blob {blob[7:]}")


def main(arguments):
    match arguments:
        case ["list", path] if path.endswith(".yaml"):
            Lock(pathlib.Path(path).read_bytes()).list(lambda _: "")
        case ["list", path]:
            Bundle(path).list()
        case ["verify", path, *folder] if len(folder) < 2:
            Bundle(path).verify(*folder)
        case ["extract" | "content" as what, path, digits, out]:
            Bundle(path).extract(digits, out, what == "extract")
        case ["proven", path]:
            print(*Bundle(path).list_proven(), sep="", end="")
        case ["signature", path]:
            print(Bundle(path).statement())
        case ["inventory", path]:
            inventory(path)
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
