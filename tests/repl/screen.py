"""A terminal's screen, as far as the prompt's control sequences go: text, wrapping, scrolling, cursor moves, erasing. Anything else is an error."""
import re
import unicodedata


def width_of(char):
    if unicodedata.combining(char) or char in "\u200d\ufe0f":
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


class Screen:
    def __init__(self, columns, rows):
        self.columns, self.rows = columns, rows
        self.cells = [[" "] * columns for _ in range(rows)]
        self.styles = [[""] * columns for _ in range(rows)]
        self.x = self.y = 0
        self.style = ""
        self.pending = ""  # a sequence that has not ended
        self.pasting = False
        self.unknown = []

    def resize(self, columns, rows):
        """As xterm does it: rows are cut or filled up, nothing is folded."""
        for lines, blank in ((self.cells, " "), (self.styles, "")):
            lines[:] = [(line + [blank] * columns)[:columns] for line in lines]
            while len(lines) > rows:
                lines.pop(0)
            while len(lines) < rows:
                lines.append([blank] * columns)
        if rows < self.rows:
            self.y -= self.rows - rows
        self.columns, self.rows = columns, rows
        self.x, self.y = min(self.x, columns - 1), max(0, min(self.y, rows - 1))

    def _line_feed(self):
        if self.y + 1 < self.rows:
            self.y += 1
            return
        for lines, blank in ((self.cells, " "), (self.styles, "")):
            lines.pop(0)
            lines.append([blank] * self.columns)

    def _put(self, char):
        width = width_of(char)
        if width == 0:
            at = max(0, self.x - 1)
            self.cells[self.y][at] += char
            return
        if self.x + width > self.columns:  # the cursor waited behind the last column
            self.x = 0
            self._line_feed()
        self.cells[self.y][self.x], self.styles[self.y][self.x] = char, self.style
        if width == 2:
            self.cells[self.y][self.x + 1] = ""
        self.x += width

    def _erase(self, line, first, last):
        for at in range(first, last):
            self.cells[line][at], self.styles[line][at] = " ", ""

    def _control(self, parameters, final):
        number = int(parameters or "0") if parameters.isdigit() or not parameters else None
        x = min(self.x, self.columns - 1)
        if final == "m":
            self.style = "" if parameters in ("", "0") else parameters
        elif final == "A":
            self.y = max(0, self.y - max(1, number))
        elif final == "C":
            self.x = min(self.columns - 1, x + max(1, number))
        elif final == "H" and not parameters:
            self.x = self.y = 0
        elif final == "K" and number == 0:
            self._erase(self.y, x, self.columns)
        elif final == "J" and number in (0, 2):
            self._erase(self.y, 0 if number == 2 else x, self.columns)
            for line in range(0 if number == 2 else self.y + 1, self.rows):
                self._erase(line, 0, self.columns)
        elif parameters == "?2004":
            self.pasting = final == "h"
        else:
            self.unknown.append(f"ESC [ {parameters} {final}")

    def feed(self, text):
        text = self.pending + text
        self.pending = ""
        at = 0
        while at < len(text):
            char = text[at]
            if char == "\x1b":
                match = re.compile(r"\x1b\[([?\d;]*)([@-~])").match(text, at)
                if not match:
                    if len(text) - at < 32:
                        self.pending = text[at:]
                        return
                    self.unknown.append(repr(text[at:at + 10]))
                    at += 1
                    continue
                self._control(*match.groups())
                at = match.end()
                continue
            at += 1
            if char == "\r":
                self.x = 0
            elif char == "\n":
                self._line_feed()
            elif char == "\t":
                self.x = min(self.columns - 1, (self.x // 8 + 1) * 8)
            elif char == "\x07":
                pass
            elif ord(char) < 32:
                self.unknown.append(repr(char))
            else:
                self._put(char)

    def lines(self):
        """Rows without blanks at their ends, and without empty rows at the end."""
        rows = ["".join(row).rstrip() for row in self.cells]
        while rows and not rows[-1]:
            rows.pop()
        return rows

    def style_of(self, text):
        """The style of the first place where the screen has this text."""
        for row, styles in zip(self.cells, self.styles):
            at = "".join(cell[:1] or "\0" for cell in row).find(text)
            if at >= 0:
                return styles[at]
        return None
