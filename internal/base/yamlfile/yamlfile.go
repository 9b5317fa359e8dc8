// Package yamlfile reads YAML files that people write. It is strict, and every error has the line and the field of
// the fault. A reader walks the tree of nodes by the fields that it knows. It rejects every other field, with a hint
// at the name that was probably meant. Files may come from strangers, so neither aliases nor nesting can make reading
// expensive.
package yamlfile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/tradewind-broker/tradewind/internal/base/fault"
	"github.com/tradewind-broker/tradewind/internal/base/stopping"
)

const (
	// maxMarks bounds the punctuation that can begin a YAML node, and with it the memory of the parsed tree: about
	// one node for each mark and 200 bytes for each node. A job of 100,000 tasks with a few dependencies each has
	// about this number of marks.
	maxMarks = 2_500_000
	// maxVisits bounds the nodes that a Reader visits. Each use of an alias counts again. A smaller file may have
	// visitsPerMark visits for each of its marks.
	maxVisits     = 2 * maxMarks
	visitsPerMark = 50
	// visitsPerLook is the number of visits between two checks of a Reader whether its context has ended.
	visitsPerLook = 1000
)

// Reader walks the node tree of a YAML file. It visits only the requested fields, so the caller limits the depth. It
// counts every node that it visits, so aliases cannot multiply the work.
type Reader struct {
	visits int             // the remaining visits
	ctx    context.Context //nolint:containedctx // of the one call that reads the file
}

// Entry is a field of a mapping.
type Entry struct {
	Key        string
	Name, Node *yaml.Node // the key, and the value with aliases followed
}

// Fields are the fields that a mapping may have, each with the function that reads its value into a T. The file may
// have them in any order, and all are optional.
type Fields[T any] map[string]func(into T, node *yaml.Node) error

// Decode is DecodeContext without an end.
func Decode(data []byte) ([]*yaml.Node, Reader, error) {
	return DecodeContext(context.Background(), data)
}

// DecodeContext parses a file. It returns the roots of its non-empty documents, at least one, and a Reader for them.
// When the context ends, parsing and reading end with its error.
func DecodeContext(ctx context.Context, data []byte) ([]*yaml.Node, Reader, error) {
	marks := countMarks(data)
	if marks > maxMarks {
		return nil, Reader{}, fault.OverLimit(
			fmt.Sprintf("the YAML has %d marks that begin values, more than %d", marks, maxMarks),
			"large generated graphs are better written as WfFormat or DAX")
	}
	// The YAML package rejects any file that declares YAML 1.2.
	if rest, ok := bytes.CutPrefix(data, []byte("%YAML 1.2")); ok {
		data = slices.Concat([]byte("%YAML 1.1"), rest)
	}
	var roots []*yaml.Node
	dec := yaml.NewDecoder(stopping.Reader(ctx, data))
	for {
		var doc yaml.Node
		err := dec.Decode(&doc)
		if errors.Is(err, io.EOF) && len(roots) == 0 {
			return nil, Reader{}, fault.New("the file is empty", "")
		}
		if errors.Is(err, io.EOF) {
			return roots, Reader{visits: min(1000+visitsPerMark*marks, maxVisits), ctx: ctx}, nil
		}
		if ctx.Err() != nil {
			return nil, Reader{}, ctx.Err()
		}
		if err != nil {
			return nil, Reader{}, syntax(data, err)
		}
		if doc.Kind == yaml.DocumentNode && len(doc.Content) == 1 && !IsNull(doc.Content[0]) {
			roots = append(roots, doc.Content[0])
		}
	}
}

// countMarks counts the characters that can begin a YAML node, including those in the text of a script, which begin
// none. An entry in braces without a colon counts twice, because it is a key and a value.
func countMarks(data []byte) int {
	marks, colon := 0, false
	for i, c := range data {
		switch c {
		case '\n':
			marks++
		case ':':
			marks++
			colon = true
		case '[', '{':
			marks++
			colon = false
		case ',', ']', '}':
			marks++
			if !colon {
				marks++
			}
			colon = false
		case '-', '?':
			if i+1 == len(data) || data[i+1] <= ' ' {
				marks++
			}
		}
	}
	return marks
}

// syntax makes a fault.Error from an error of the YAML package, and corrects its line, which is sometimes one too
// low.
func syntax(data []byte, err error) error {
	e := &fault.Error{Line: 1, Cause: err}
	parts := regexp.MustCompile(`(?s)^yaml: (?:line (\d+): )?(.*)$`).FindStringSubmatch(err.Error())
	if parts == nil {
		e.Reason = "is not YAML: " + err.Error()
		return e
	}
	reason := parts[2]
	if n, err := strconv.Atoi(parts[1]); err == nil {
		e.Line = n
	}
	if strings.HasPrefix(reason, "did not find expected") && !strings.Contains(reason, "character") &&
		!strings.Contains(reason, "comment") {
		e.Line++ // the parser, unlike the scanner below it, counts lines from 0
	}
	if anchor := regexp.MustCompile(`^unknown anchor '([^']*)'`).FindStringSubmatch(reason); anchor != nil {
		if i := bytes.Index(data, []byte("*"+anchor[1])); i >= 0 {
			at := fault.PositionIn(data, i)
			e.Line, e.Column = int(at.Line), int(at.Column)
		}
	}
	if line, column, is := tabAt(data, e.Line, reason); is {
		e.Line, e.Column = line, column
		e.Reason, e.Hint = "is not YAML: a tab is not allowed here", "write spaces instead of tabs"
		return e
	}
	e.Reason = "is not YAML: " + reason
	switch {
	case strings.Contains(reason, "cannot start any token"):
		e.Hint = "indent with spaces, not tabs, and put text that begins with a sign in quotes"
	case strings.Contains(reason, "mapping values are not allowed"):
		e.Hint = "check the indentation, and put text that contains ': ' in quotes"
	case strings.HasPrefix(reason, "did not find expected key"),
		strings.HasPrefix(reason, "could not find expected ':'"):
		e.Hint = "check the indentation here and below"
	}
	return e
}

// tabAt finds the tab that the YAML package rejected, if the error is about a tab. If the tab is at the end of a
// block of text, the error has the line in which the text begins. The tab is in a later line that is indented less
// than the text.
func tabAt(data []byte, line int, reason string) (at, column int, is bool) {
	inText := strings.Contains(reason, "found a tab character")
	if !inText && !strings.Contains(reason, "cannot start any token") {
		return 0, 0, false
	}
	indent := -1
	for text := range bytes.Lines(data) {
		at++
		if at < line || at == line && inText {
			continue
		}
		text = bytes.TrimRight(text, "\r\n")
		spaces := len(text) - len(bytes.TrimLeft(text, " "))
		tab := bytes.IndexByte(text, '\t')
		switch {
		case !inText:
			// The package may have rejected a sign after the tab, not the tab.
			is = regexp.MustCompile("^[ ?:-]*\t[ \t]*([^@`%\\s]|$)").Match(text)
			return at, tab + 1, is
		case tab == spaces && (indent < 0 || tab < indent):
			return at, tab + 1, true
		case indent < 0 && spaces < len(text):
			indent = spaces
		}
	}
	return 0, 0, false
}

// visit follows an alias and counts the node.
func (r *Reader) visit(n *yaml.Node) (*yaml.Node, error) {
	if r.visits--; r.visits < 0 {
		return nil, fault.At(
			PositionOf(n),
			fault.OverLimit("aliases expand to too many values", "write fewer of them"),
		)
	}
	if r.visits%visitsPerLook == 0 && r.ctx != nil && r.ctx.Err() != nil {
		return nil, r.ctx.Err()
	}
	if n.Kind == yaml.AliasNode {
		return n.Alias, nil // the YAML package has resolved it: it is never an alias itself
	}
	return n, nil
}

// PositionOf returns the position of a node in its file.
func PositionOf(n *yaml.Node) fault.Position {
	return fault.Position{Line: int32(n.Line), Column: int32(n.Column)} //nolint:gosec // at most MaxFileBytes
}

// Fault returns an error at the position of a node.
func (r *Reader) Fault(n *yaml.Node, reason, hint string) error {
	return fault.At(PositionOf(n), fault.New(reason, hint))
}

// Mapping returns the fields of a mapping in the order of the file, followed by those of merged mappings.
func (r *Reader) Mapping(n *yaml.Node) ([]Entry, error) {
	if n.Kind != yaml.MappingNode {
		return nil, r.Fault(n, "must be a mapping of fields, not "+Describe(n), "")
	}
	entries := make([]Entry, 0, len(n.Content)/2)
	seen := make(map[string]int, len(n.Content)/2)
	var merged []*yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, err := r.visit(n.Content[i])
		if err != nil {
			return nil, err
		}
		node, err := r.visit(n.Content[i+1])
		if err != nil {
			return nil, err
		}
		if name.Kind != yaml.ScalarNode {
			return nil, r.Fault(name, "the name of a field must be a word, not "+Describe(name), "")
		}
		if name.ShortTag() == "!!merge" {
			merged = append(merged, node)
			continue
		}
		if first, ok := seen[name.Value]; ok {
			hint := "remove one"
			if name.Value == "apiVersion" {
				hint = "write --- between two objects, or remove one"
			}
			return nil, fault.WithinKey(
				name.Value, r.Fault(name, fmt.Sprintf("is given twice, first in line %d", first), hint))
		}
		seen[name.Value] = name.Line
		entries = append(entries, Entry{Key: name.Value, Name: name, Node: node})
	}
	for _, m := range merged {
		var err error
		if entries, err = r.merge(entries, seen, m, 0); err != nil {
			return nil, err
		}
	}
	return entries, nil
}

// merge adds those fields of a merged mapping (<<: *defaults) that entries does not have yet.
func (r *Reader) merge(entries []Entry, seen map[string]int, n *yaml.Node, depth int) ([]Entry, error) {
	const deepest = 16
	if n.Kind == yaml.SequenceNode && depth < deepest {
		for _, c := range n.Content {
			c, err := r.visit(c)
			if err == nil {
				entries, err = r.merge(entries, seen, c, depth+1)
			}
			if err != nil {
				return nil, err
			}
		}
		return entries, nil
	}
	if n.Kind != yaml.MappingNode || depth >= deepest {
		return nil, r.Fault(n, "only mappings can be merged with <<", "")
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, err := r.visit(n.Content[i])
		if err != nil {
			return nil, err
		}
		node, err := r.visit(n.Content[i+1])
		if err != nil {
			return nil, err
		}
		if name.Kind == yaml.ScalarNode && name.ShortTag() == "!!merge" {
			if entries, err = r.merge(entries, seen, node, depth+1); err != nil {
				return nil, err
			}
			continue
		}
		if _, ok := seen[name.Value]; !ok && name.Kind == yaml.ScalarNode {
			seen[name.Value] = name.Line
			entries = append(entries, Entry{Key: name.Value, Name: name, Node: node})
		}
	}
	return entries, nil
}

// ReadFields reads a mapping into the value into. A field that is not in known is an error. The error has the faults of
// all fields.
func ReadFields[T any](r *Reader, n *yaml.Node, known Fields[T], into T) error {
	return ReadFieldsOr(r, n, known, into, func(e Entry) error { return r.Unknown(e, known.Names()) })
}

// ReadFieldsOr is ReadFields with a function that returns the error for a field that is not in known.
func ReadFieldsOr[T any](r *Reader, n *yaml.Node, known Fields[T], into T, unknown func(Entry) error) error {
	return r.Each(n, func(e Entry) error {
		read, ok := known[e.Key]
		if !ok {
			return unknown(e)
		}
		return read(into, e.Node)
	})
}

// Each calls read for every field of a mapping. The error has the faults of all fields.
func (r *Reader) Each(n *yaml.Node, read func(Entry) error) error {
	entries, err := r.Mapping(n)
	if err != nil {
		return err
	}
	var all fault.Faults
	for _, e := range entries {
		if !all.Add(fault.WithinKey(e.Key, fault.At(PositionOf(e.Node), read(e)))) {
			break
		}
	}
	return all.Err()
}

// Unknown returns the error for a field that its mapping does not have, with a hint from the known names.
func (r *Reader) Unknown(e Entry, known []string) error {
	return r.Fault(e.Name, "unknown field", fault.OneOf(e.Key, known))
}

// List calls each for every element of a sequence. The error has the faults of all elements.
func (r *Reader) List(n *yaml.Node, each func(i int, n *yaml.Node) error) error {
	if n.Kind != yaml.SequenceNode {
		hint := ""
		if n.Kind == yaml.ScalarNode {
			hint = listHint(n, each(0, n) == nil)
		}
		return r.Fault(n, "must be a list, not "+Describe(n), hint)
	}
	var all fault.Faults
	for i, c := range n.Content {
		c, err := r.visit(c)
		if err == nil {
			err = fault.At(PositionOf(c), each(i, c))
		}
		if err != nil && !all.Add(fault.Within(fault.Index(i), err)) {
			break
		}
	}
	return all.Err()
}

// listHint returns a hint that shows a scalar written as a list. If element is set, the scalar is a valid element,
// and the hint shows it as the only one.
func listHint(n *yaml.Node, element bool) string {
	const longest = 64
	word := regexp.MustCompile(`^[\w/.]([\w/.:@+-]*[\w/.])?$`) // needs no quotes in either style of list
	switch {
	case IsNull(n):
		return "give one, or leave the field out"
	case element && len(n.Value) <= longest && word.MatchString(n.Value):
		return fmt.Sprintf(`write [%s], or a line "- %s" for each`, n.Value, n.Value)
	}
	return `begin each element with "- ", on its own line`
}

// Text returns a scalar as it is in the file, whatever its YAML type.
func (r *Reader) Text(n *yaml.Node) (string, error) {
	if n.Kind != yaml.ScalarNode {
		return "", r.Fault(n, "must be text, not "+Describe(n), "")
	}
	switch n.ShortTag() {
	case "!!null":
		return "", r.Fault(n, "has no value", "give one, or leave the field out")
	case "!!str", "!!int", "!!float", "!!bool", "!!timestamp", "!!merge":
		return n.Value, fault.At(PositionOf(n), fault.CheckString(n.Value))
	}
	return "", r.Fault(n, "has the tag "+fault.Quote(n.Tag)+", which means nothing here", "remove it")
}

// Boolean reads a boolean in the spellings of YAML 1.1 and 1.2.
func (r *Reader) Boolean(n *yaml.Node) (bool, error) {
	s, err := r.Text(n)
	if err != nil {
		return false, err
	}
	switch strings.ToLower(s) {
	case "true", "yes", "on":
		return true, nil
	case "false", "no", "off":
		return false, nil
	}
	return false, r.Fault(n, fault.Quote(s)+" is neither true nor false", "")
}

// IsNull reports whether a field has no value.
func IsNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

// Describe names the kind of a node in plain words, for errors.
func Describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	case yaml.ScalarNode:
		if n.ShortTag() == "!!null" {
			return "nothing"
		}
		return "text"
	}
	return "an alias"
}

// Texts reads a mapping of names to texts and calls check for each. Errors have the name and the line.
func (r *Reader) Texts(n *yaml.Node, check func(name, text string) error) (map[string]string, error) {
	all := map[string]string{}
	return all, r.Each(n, func(e Entry) (err error) {
		if all[e.Key], err = r.Text(e.Node); err == nil {
			err = check(e.Key, all[e.Key])
		}
		return err
	})
}

// TextField returns a function that reads a field of text, parses it and stores the result in the field that to
// returns.
func TextField[T, V any](r *Reader, to func(T) *V, parse func(string) (V, error)) func(T, *yaml.Node) error {
	return func(into T, n *yaml.Node) error {
		s, err := r.Text(n)
		if err != nil {
			return err
		}
		v, err := parse(s)
		if err != nil {
			return fault.At(PositionOf(n), err)
		}
		*to(into) = v
		return nil
	}
}

// Checked returns a parse function that checks the text and returns it unchanged.
func Checked(check func(string) error) func(string) (string, error) {
	return func(s string) (string, error) { return s, check(s) }
}

// Names returns the names of the fields, sorted.
func (f Fields[T]) Names() []string {
	return slices.Sorted(maps.Keys(f))
}
