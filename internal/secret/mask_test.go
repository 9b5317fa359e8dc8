package secret_test

import (
	"bytes"
	"encoding/base64"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tradewind-broker/tradewind/internal/secret"
)

func TestMaskHidesSecretsAndEncodings(t *testing.T) {
	m := secret.NewMask("p&ss \"word\"", "-----BEGIN\nAAAABBBBCCCC\n}\n", "abc", "abcdef", "s3cr3t\r\n")
	for _, c := range []struct{ in, want string }{
		{"nothing to hide", "nothing to hide"},
		{`x p&ss "word" y`, "x *** y"},
		{`{"a":"p\u0026ss \"word\""}`, `{"a":"***"}`},
		{"?q=p%26ss+%22word%22&r", "?q=***&r"},
		{base64.StdEncoding.EncodeToString([]byte(`p&ss "word"`)), secret.Hidden},
		{"AAAABBBBCCCC }", "*** }"},
		{"abcdef abc", "*** ***"},
		{"x=s3cr3t;", "x=***;"},
		{base64.StdEncoding.EncodeToString([]byte("s3cr3t")), secret.Hidden},
		{"", ""},
	} {
		if got := m.String(c.in); got != c.want {
			t.Errorf("%q: %q, want %q", c.in, got, c.want)
		}
	}
	var none *secret.Mask
	if none.String("abc") != "abc" || secret.NewMask("") != nil {
		t.Error("hides without a secret")
	}
}

// A text is written in several pieces. The masked result must be the same as for one write, and nothing may be lost.
func TestMaskHidesAcrossWrites(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		letters := rapid.StringMatching(`[ab]{1,6}`)
		m := secret.NewMask(rapid.SliceOfN(letters, 0, 3).Draw(t, "secrets")...)
		text := rapid.StringMatching(`[abc\n]{0,40}`).Draw(t, "text")
		var out bytes.Buffer
		w := m.Writer(&out)
		for rest := text; rest != ""; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "piece")
			if _, err := w.Write([]byte(rest[:n])); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		if want := m.String(text); out.String() != want {
			t.Fatalf("in pieces %q, as a whole %q", out.String(), want)
		}
	})
}

// No secret may remain in the output, except a secret that is a part of a longer one.
func TestMaskLeavesNoSecret(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		hidden := rapid.StringMatching(`[ab]{1,6}`).Draw(t, "secret")
		text := rapid.StringMatching(`[abc]{0,40}`).Draw(t, "text")
		if got := secret.NewMask(hidden).String(text); strings.Contains(got, hidden) {
			t.Fatalf("%q in %q", hidden, got)
		}
	})
}
