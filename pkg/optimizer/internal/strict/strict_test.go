package strict_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/cockroachdb/datadriven"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/strict"
)

// TestStories reads a text. The command is:
//
//	read        an object with a required name, a size, at most two tags and two parts (objects with a size), and an
//	            empty list
//
// It prints what was read, or the error.
func TestStories(t *testing.T) {
	datadriven.Walk(t, "testdata/stories", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd != "read" {
				d.Fatalf(t, "unknown command %s", d.Cmd)
			}
			return read(strings.ReplaceAll(d.Input, "LONG", strings.Repeat("x", 100)))
		})
	})
}

func read(text string) string {
	p := strict.New(strings.NewReader(text))
	var name string
	var size float64
	var tags []string
	var parts []float64
	err := p.Object([]strict.Field{
		strict.Optional("size", func() error { return p.Number(&size) }),
		strict.Required("name", func() error { return p.Text(&name) }),
		strict.Optional("tags", func() error { return p.Texts(2, &tags) }),
		strict.Optional("none", func() error { return p.Texts(0, &tags) }),
		strict.Optional("parts", func() error {
			return p.List(2, func() error {
				var part float64
				err := p.Object([]strict.Field{strict.Required("size", func() error { return p.Number(&part) })})
				parts = append(parts, part)
				return err
			})
		}),
	})
	if err == nil {
		err = p.End()
	}
	if err == nil {
		return fmt.Sprintf("name %q, size %v, tags %q, parts %v\n", name, size, tags, parts)
	}
	var of *strict.Error
	if !errors.As(err, &of) {
		return fmt.Sprintf("another error: %v\n", err)
	}
	var syntax *jsontext.SyntacticError
	none := map[bool]string{true: " (not JSON)"}[errors.As(of.Err, &syntax)]
	return fmt.Sprintf("%s: %s%s\n", of.Field, of.Reason, none)
}

// An error of the underlying reader must be returned as it is, not as an error in the text.
func TestReaderErrorIsReturned(t *testing.T) {
	broken := errors.New("disk error")
	p := strict.New(iotest.ErrReader(broken))
	var of *strict.Error
	if err := p.Object(nil); !errors.Is(err, broken) || errors.As(err, &of) {
		t.Errorf("the error is %v", err)
	}
	err := (&strict.Error{Field: "size", Reason: "is a string, not a number"}).Error()
	if err != "size: is a string, not a number" {
		t.Errorf("the error is %q", err)
	}
}

// Names must be cut after eighty characters.
func TestClip(t *testing.T) {
	for n, want := range map[int]int{79: 79, 80: 80, 81: 80} {
		name := strings.Repeat("x", n)
		if got := strict.Clip(name); strings.Count(got, "x") != want || strings.HasSuffix(got, "…") != (n > 80) {
			t.Errorf("of %d characters %q is left", n, got)
		}
	}
}
