// Package mask hides secrets in what a task prints: as they are, line by line, and as they look in base64, in a URL and
// in JSON. What a program makes of a secret otherwise, such as printing it backwards, is not found.
package mask

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Hidden stands in the place of a secret.
const Hidden = "***"

// minLine is from how many bytes on a line of a secret of several lines is hidden by itself: what begins a key, or a
// brace alone, is no secret.
const minLine = 8

// Mask knows what to hide. Nil hides nothing.
type Mask struct {
	patterns [][]byte // the longest first
	longest  int
}

// New hides some values.
func New(values ...string) *Mask {
	m := &Mask{}
	for _, v := range values {
		m.add(v)
		m.add(strings.TrimSpace(v)) // a program takes the end of the line away that a file of it has
		for line := range strings.Lines(v) {
			if line = strings.TrimSpace(line); len(line) >= minLine {
				m.add(line)
			}
		}
	}
	if len(m.patterns) == 0 {
		return nil
	}
	slices.SortFunc(m.patterns, func(a, b []byte) int {
		return cmp.Or(cmp.Compare(len(b), len(a)), bytes.Compare(a, b))
	})
	m.patterns = slices.CompactFunc(m.patterns, bytes.Equal)
	m.longest = len(m.patterns[0])
	return m
}

func (m *Mask) add(v string) {
	if v == "" {
		return
	}
	raw := []byte(v)
	for _, as := range []string{
		v, inJSON(v, true, false), inJSON(v, false, false), inJSON(v, false, true), // Go; JavaScript, jq; Python
		url.QueryEscape(v), url.PathEscape(v), lower(url.QueryEscape(v)), lower(url.PathEscape(v)),
		escaped(v, "!~*'()"), escaped(v, "/~"), escaped(v, ""), // encodeURIComponent, Python's quote, RFC 3986
		base64.StdEncoding.EncodeToString(raw), base64.RawStdEncoding.EncodeToString(raw),
		base64.URLEncoding.EncodeToString(raw), base64.RawURLEncoding.EncodeToString(raw),
	} {
		if as != "" {
			m.patterns = append(m.patterns, []byte(as))
		}
	}
}

// String is s without secrets.
func (m *Mask) String(s string) string {
	if m == nil {
		return s
	}
	var b bytes.Buffer
	m.hide(&b, []byte(s), true)
	return b.String()
}

// hide writes text without secrets, and returns what may be the beginning of one: nothing at the end.
func (m *Mask) hide(to *bytes.Buffer, text []byte, end bool) (held []byte) {
	for {
		at, length := m.find(text)
		if hold := m.begins(text); !end && hold < len(text) && (at < 0 || hold <= at) {
			to.Write(text[:hold])
			return text[hold:]
		}
		if at < 0 {
			to.Write(text)
			return nil
		}
		to.Write(text[:at])
		to.WriteString(Hidden)
		text = text[at+length:]
	}
}

// find returns where the first secret is, and how long: the longest of those that begin there.
func (m *Mask) find(text []byte) (at, length int) {
	at = -1
	for _, p := range m.patterns {
		within := text
		if at >= 0 {
			within = text[:min(len(text), at+len(p)-1)] // before it, as longer ones have been looked for
		}
		if i := bytes.Index(within, p); i >= 0 {
			at, length = i, len(p)
		}
	}
	return at, length
}

// begins returns where the end of a text begins that could go on as a secret; its length where none does.
func (m *Mask) begins(text []byte) int {
	for i := max(0, len(text)-m.longest+1); i < len(text); i++ {
		for _, p := range m.patterns {
			if len(p) > len(text)-i && bytes.HasPrefix(p, text[i:]) {
				return i
			}
		}
	}
	return len(text)
}

// Writer hides secrets in what is written through it, also where they come in pieces. Flush writes what was held back.
type Writer struct {
	mask *Mask
	to   io.Writer
	held []byte
}

// Writer returns a writer to another one.
func (m *Mask) Writer(to io.Writer) *Writer { return &Writer{mask: m, to: to} }

// Write implements io.Writer.
func (w *Writer) Write(p []byte) (int, error) {
	if w.mask == nil {
		return w.to.Write(p)
	}
	var b bytes.Buffer
	w.held = bytes.Clone(w.mask.hide(&b, append(w.held, p...), false))
	if b.Len() > 0 {
		if _, err := w.to.Write(b.Bytes()); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

// Flush writes what was held back as it may have gone on.
func (w *Writer) Flush() error {
	if len(w.held) == 0 {
		return nil
	}
	var b bytes.Buffer
	w.mask.hide(&b, w.held, true)
	w.held = nil
	_, err := w.to.Write(b.Bytes())
	return err
}

// inJSON is v as programs write it between quotes.
func inJSON(v string, html, ascii bool) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(html)
	_ = e.Encode(v) // of a string: cannot fail
	text := strings.TrimSuffix(b.String(), "\n")
	text = text[1 : len(text)-1]
	if !ascii {
		return text
	}
	b.Reset()
	for _, r := range text {
		switch {
		case r < utf8.RuneSelf:
			b.WriteRune(r)
		case r > 0xffff:
			one, two := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, one, two)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// escaped is v in a URL but for letters, digits, "-", "_", "." and some more.
func escaped(v, more string) string {
	var b strings.Builder
	for i := range len(v) {
		c := v[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte("-_."+more, c) >= 0:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

var escape = regexp.MustCompile(`%[0-9A-F]{2}`)

// lower has escapes in small letters.
func lower(v string) string { return escape.ReplaceAllStringFunc(v, strings.ToLower) }
