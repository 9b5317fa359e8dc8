package secret

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

// Hidden replaces a secret.
const Hidden = "***"

// minLine is the minimum length, in bytes, for a line of a multi-line secret to be hidden by itself. Shorter lines,
// such as a single brace, are not secret.
const minLine = 8

// Mask hides a set of secrets in a task's output: each secret itself, each of its lines, and its forms in base64, in a
// URL and in JSON. It does not find other transformations, such as a secret printed backwards. A nil Mask hides
// nothing.
type Mask struct {
	patterns [][]byte // longest first
	longest  int
}

// NewMask returns a Mask that hides the given values.
func NewMask(values ...string) *Mask {
	m := &Mask{}
	for _, v := range values {
		m.add(v)
		m.add(strings.TrimSpace(v)) // programs often strip the newline at the end of a secret's file
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
		v,
		jsonEscaped(v, true, false),  // Go
		jsonEscaped(v, false, false), // JavaScript, jq
		jsonEscaped(v, false, true),  // Python
		url.QueryEscape(v), url.PathEscape(v), lowerEscapes(url.QueryEscape(v)), lowerEscapes(url.PathEscape(v)),
		escaped(v, "!~*'()"), escaped(v, "/~"), escaped(v, ""), // encodeURIComponent, Python's quote, RFC 3986
		base64.StdEncoding.EncodeToString(raw), base64.RawStdEncoding.EncodeToString(raw),
		base64.URLEncoding.EncodeToString(raw), base64.RawURLEncoding.EncodeToString(raw),
	} {
		if as != "" {
			m.patterns = append(m.patterns, []byte(as))
		}
	}
}

// String returns s with its secrets hidden.
func (m *Mask) String(s string) string {
	if m == nil {
		return s
	}
	var b bytes.Buffer
	m.hide(&b, []byte(s), true)
	return b.String()
}

// hide writes text with its secrets hidden. Unless end is set, it returns the end of text that may be the beginning
// of a secret instead of writing it.
func (m *Mask) hide(to *bytes.Buffer, text []byte, end bool) (held []byte) {
	for {
		at, length := m.find(text)
		if hold := m.possibleStart(text); !end && hold < len(text) && (at < 0 || hold <= at) {
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

// find returns the position and length of the first secret in text, and of the longest if several begin there.
func (m *Mask) find(text []byte) (at, length int) {
	at = -1
	for _, p := range m.patterns {
		within := text
		if at >= 0 {
			within = text[:min(len(text), at+len(p)-1)] // only matches before at: patterns get shorter
		}
		if i := bytes.Index(within, p); i >= 0 {
			at, length = i, len(p)
		}
	}
	return at, length
}

// possibleStart returns the position from which the end of text may be the beginning of a secret; the length of text if
// there is none.
func (m *Mask) possibleStart(text []byte) int {
	for i := max(0, len(text)-m.longest+1); i < len(text); i++ {
		for _, p := range m.patterns {
			if len(p) > len(text)-i && bytes.HasPrefix(p, text[i:]) {
				return i
			}
		}
	}
	return len(text)
}

// MaskWriter hides secrets in the data that is written through it, even if a secret is split across writes. Flush
// writes the data that was held back.
type MaskWriter struct {
	mask *Mask
	to   io.Writer
	held []byte
}

// Writer returns a MaskWriter that writes to to.
func (m *Mask) Writer(to io.Writer) *MaskWriter { return &MaskWriter{mask: m, to: to} }

// Write implements io.Writer.
func (w *MaskWriter) Write(p []byte) (int, error) {
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

// Flush writes the text that was held back because it might have been the beginning of a secret.
func (w *MaskWriter) Flush() error {
	if len(w.held) == 0 {
		return nil
	}
	var b bytes.Buffer
	w.mask.hide(&b, w.held, true)
	w.held = nil
	_, err := w.to.Write(b.Bytes())
	return err
}

// jsonEscaped returns v as programs write it between the quotes of a JSON string.
func jsonEscaped(v string, html, ascii bool) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(html)
	_ = e.Encode(v) // cannot fail for a string
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

// escaped returns v in URL encoding. Letters, digits, "-", "_", "." and the characters in more are not encoded.
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

// lowerEscapes changes the URL escapes in v to lower case.
func lowerEscapes(v string) string { return escape.ReplaceAllStringFunc(v, strings.ToLower) }
