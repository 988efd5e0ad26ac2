"""Undoes the ELF filter of kubexm's bundles. Written from section 8.3 of src/bundle/FORMAT.md alone."""

import struct

MASK = 0xFFFFFFFF
PLAIN = frozenset(bytes.fromhex(
    "03 0F 10 11 23 28 29 2B 2E 33 38 39 3A 3B 54 57 58 59 5C 5E 63 6F 7F 84 85 87 88 89 8A 8B 8D B1 B6"
    " B7 C1 EF FF"))
ONE_BYTE, FOUR_BYTES = frozenset(b"\x80\x83\xc6\xf6"), frozenset(b"\x69\x81\xc7\xf7")


class Ended(Exception):
    """The stream is shorter than a rule needs: the rest is copied (rule of complete units)."""


def get(data, at, form="I"):
    return struct.unpack_from("<" + form, data, at)[0]


def put(data, at, value):
    struct.pack_into("<I", data, at, value & MASK)


class Recent:
    """Section 8.3.7."""

    def __init__(self):
        self.list = list(range(256))

    def undo(self, word, following, bits):
        mask, far = 2**bits - 1, 2 ** (bits - 1)
        if following >= far - 256:
            return word
        if word < 256:
            place = self.list.pop(word)
            self.list.insert(0, place)
            return (place - following) & mask
        distance = word ^ far
        place = (distance + following) & mask
        if place in self.list:
            return self.list.index(place) ^ far
        if place < far - 256:
            self.list.insert(0, place)
            self.list.pop()
        return distance


def program(head):
    """The machine, the code ranges and the end, or None (section 8.3.2)."""
    if head[4:6] != b"\x02\x01" or get(head, 18, "H") not in (62, 183):
        return None
    offset, size, count = get(head, 32, "Q"), get(head, 54, "H"), get(head, 56, "H")
    if offset < 64 or size != 56 or offset + 56 * count > 4096:
        return None
    code, end = [], 0
    for at in range(offset, offset + 56 * count, 56):
        if get(head, at) != 1:
            continue
        start = get(head, at + 8, "Q")
        stop = start + get(head, at + 32, "Q")
        if stop > 2**30:
            return None
        end = max(end, stop)
        if get(head, at + 4) & 1 and stop > 4096:
            code.append((max(start, 4096), stop))
    code.sort()
    if not code or any(first[1] > second[0] for first, second in zip(code, code[1:])):
        return None
    return get(head, 18, "H"), code, end


class Filter:
    def __init__(self, data):
        self.data = bytearray(data)
        self.pos = 0

    def need(self, count):
        if self.pos + count > len(self.data):
            raise Ended
        return self.pos

    def undo(self):
        try:
            while self.pos < len(self.data):
                self.outside()
        except Ended:
            pass
        return bytes(self.data)

    def outside(self):
        """Section 8.3.1."""
        self.pos += -self.pos % 512
        at = self.need(4)
        if self.data[at:at + 4] != b"\x7fELF":
            self.pos += 512
            return
        head = bytes(self.data[self.need(4096):at + 4096])
        self.pos += 4096
        found = program(head)
        if found:
            self.inside(at, *found)

    def inside(self, begin, machine, code, end):
        """Section 8.3.3."""
        recent = Recent()
        while self.pos < len(self.data):
            place = self.pos - begin
            around = [stop for start, stop in code if start <= place < stop]
            if around:
                decode = self.x86_64 if machine == 62 else self.aarch64
                decode(begin, around[0], recent)
                continue
            stop = min([start for start, _ in code if start > place], default=end)
            if place >= stop:
                return
            self.data_range(begin, stop)

    def data_range(self, begin, stop):
        place = self.pos - begin
        for at in range(place + -place % 16, stop - 71, 16):
            header = self.data[begin + at:begin + at + 72]
            if header[:4] == b"\xf1\xff\xff\xff" and len(header) == 72 and GoTable.valid(header):
                self.pos = begin + at + 72
                GoTable(self, header).undo()
                return
        self.pos = begin + stop

    def x86_64(self, begin, stop, recent):
        """Section 8.3.4: one stretch."""
        start = self.pos - begin
        size = min(stop - start, 262144)
        stored = self.data[self.need(size):self.pos + size]
        at = taken = 0
        operands = []
        while at + taken + 6 <= size:
            first, second = stored[at], stored[at + 1]
            if first == 0xE8:
                call, where, trailing = True, at + 1, 0
            elif first == 0xE9:
                at += 5
                continue
            elif first == 0x0F and 0x80 <= second <= 0x8F:
                at += 6
                continue
            elif second & 0xC7 == 5 and (first in PLAIN or first in ONE_BYTE or first in FOUR_BYTES):
                trailing = 1 if first in ONE_BYTE else 4 if first in FOUR_BYTES else 0
                call, where = False, at + 2
            else:
                at += 1
                continue
            operands.append((where, where + taken, start + where + taken + 4 + trailing, call))
            at, taken = where, taken + 4
        original = bytearray()
        done = 0
        for where, _, _, _ in operands:
            original += stored[done:where] + bytes(4)
            done = where
        original += stored[done:size - taken]
        read = size - taken
        for kind in (True, False):
            for _, place, following, call in operands:
                if call == kind:
                    word = get(stored, read)
                    read += 4
                    put(original, place, recent.undo(word, following, 32) if call else word - following)
        self.data[self.pos:self.pos + size] = original
        self.pos += size

    def aarch64(self, begin, stop, recent):
        """Section 8.3.5."""
        end = min(begin + stop, len(self.data))
        for at in range(self.pos + -(self.pos - begin) % 4, end - 3, 4):
            word, place = get(self.data, at), at - begin
            if word >> 26 == 0b100101:
                put(self.data, at, word & 0xFC000000 | recent.undo(word & 0x3FFFFFF, place >> 2, 26))
            elif word & 0x9F000000 == 0x90000000:
                pages = ((word >> 29 & 3) | (word >> 3 & 0x1FFFFC)) - (place >> 12)
                put(self.data, at, word & 0x9F00001F | (pages & 3) << 29 | (pages & 0x1FFFFC) << 3)
        self.pos = end


class GoTable:
    """Section 8.3.6."""

    def __init__(self, stream, header):
        self.stream, self.data, self.begin = stream, stream.data, stream.pos - 72
        self.nfunc, self.pctab, self.funcs = (get(header, at, "Q") for at in (8, 56, 64))
        self.counters, self.unit = {"N": 0, "S": 0, "D": 0}, 0

    @staticmethod
    def valid(header):
        nfunc, pctab, funcs = (get(header, at, "Q") for at in (8, 56, 64))
        fixed = header[4:6] == b"\0\0" and header[6] in (1, 4) and header[7] == 8
        return fixed and 1 <= nfunc <= 524288 and 72 <= pctab <= funcs < 2**30

    def undo(self):
        stream = self.stream
        stream.pos = min(self.begin + self.pctab, len(self.data))
        code = within = first = False
        while stream.pos < self.begin + self.funcs:
            size = min(self.begin + self.funcs - stream.pos, 1 << 20)
            block = bytes(self.data[stream.need(size):stream.pos + size])
            front, back = 0, size
            for at in range(stream.pos, stream.pos + size):
                if code:
                    back -= 1
                    byte = block[back]
                else:
                    byte = block[front]
                    front += 1
                self.data[at] = byte
                if byte >= 128:
                    within = True
                elif byte == 0 and not (code or within or first):
                    first = True
                else:
                    code, within, first = not code, False, False
            stream.pos += size
        self.entry, self.offset = [], []
        for _ in range(self.nfunc):
            at = stream.need(8)
            for values, where in ((self.entry, at), (self.offset, at + 4)):
                before = values[-1] if values else 0
                values.append((get(self.data, where) + before) & MASK)
                put(self.data, where, values[-1])
            stream.pos += 8
        done = 0
        while done < self.nfunc:
            start = self.begin + self.funcs + self.offset[done]
            stream.pos = max(stream.pos, min(start, len(self.data)))
            ranges = self.block(done)
            if stream.pos > start or not ranges:
                return
            stream.need(ranges[-1][1])
            self.functions(done, ranges)
            done += len(ranges)
            stream.pos += ranges[-1][1]

    def block(self, first):
        ranges = []
        for number in range(first, self.nfunc):
            a = self.offset[number] - self.offset[first]
            last = number + 1 == self.nfunc
            e = a + 44 if last else self.offset[number + 1] - self.offset[first]
            if last and self.offset[number] + 44 > MASK:
                break
            if a < 0 or e < 0 or e - a < 44 or (e - a) % 4 or e > 1 << 20:
                break
            ranges.append((a, e))
        return ranges

    def functions(self, first, ranges):
        at, size = self.stream.pos, ranges[-1][1]
        stored = struct.unpack_from("<%dI" % (size // 4), self.data, at)
        words = iter(stored)
        functions = [[0] * ((e - a) // 4) for a, e in ranges]
        for place in range(11):
            for function in functions:
                function[place] = next(words)
        counts = [min(function[7], len(function) - 11) for function in functions]
        for place in range(max(counts)):
            for function, count in zip(functions, counts):
                if place < count:
                    function[11 + place] = next(words)
        longest = max(len(function) - 11 - count for function, count in zip(functions, counts))
        for place in range(longest):
            for function, count in zip(functions, counts):
                if 11 + count + place < len(function):
                    function[11 + count + place] = next(words)
        for number, (function, count) in enumerate(zip(functions, counts), first):
            function[0] += self.entry[number]
            self.count("N", function, 1)
            for place in (4, 5, 6):
                self.count("S", function, place)
            function[8] = self.unit = (function[8] + self.unit) & MASK
            for place in range(11, 11 + count):
                if place != 13:
                    self.count("S", function, place)
            if count > 2:
                self.count("S", function, 13)
            for place in range(11 + count, min(len(function), 15 + count)):
                self.count("D", function, place)
        for (a, _), function in zip(ranges, functions):
            for place, word in enumerate(function):
                put(self.data, at + a + 4 * place, word)

    def count(self, name, function, place):
        word, counter = function[place], self.counters[name]
        if word >= 2 * counter:
            value = word
        elif word % 2:
            value = word // 2
        else:
            value = counter + word // 2
        function[place] = value
        if value < 2**30:
            self.counters[name] = max(counter, value)


def undo(stored):
    """The original bytes of a stream that is ELF-filtered."""
    return Filter(stored).undo()
