// Package yamlfile reads YAML files that people write: strictly, and so that every error can say in which line and
// field the fault is. A reader walks the tree of nodes by the fields it knows; what it does not know is refused with
// the name that was probably meant. Files may come from strangers: neither aliases nor nesting can make reading one
// expensive.
package yamlfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/tradewind-broker/tradewind/internal/fault"
)

const (
	// maxMarks bounds the punctuation that can begin a YAML node, and with it the memory of the
	// parsed tree: some 200 bytes a node, about a node a mark. A job of 100,000 tasks with a few
	// dependencies each has that many.
	maxMarks = 2_500_000
	// maxVisits bounds the nodes that are read, each use of an alias counted again; of a smaller
	// file it is visitsPerMark for each mark.
	maxVisits     = 2 * maxMarks
	visitsPerMark = 50
)

// Reader walks the node tree of a YAML file. It knows only the fields it is asked for, so it
// goes no deeper than they do, and counts every node it visits, so that aliases cannot multiply.
type Reader struct {
	visits int // that are left
}

// Entry is a field of a mapping.
type Entry struct {
	Key        string
	Name, Node *yaml.Node // the key, and the value with aliases followed
}

// Fields are the fields that a mapping may have, each with what reads it into a T. They may come in
// any order and any may be absent.
type Fields[T any] map[string]func(into T, node *yaml.Node) error

// Decode parses a file. It returns the roots of the documents that are not empty, at least one, and a reader of them.
func Decode(data []byte) ([]*yaml.Node, Reader, error) {
	marks := countMarks(data)
	if marks > maxMarks {
		return nil, Reader{}, fault.OverLimit(
			fmt.Sprintf("the YAML has %d marks that begin values, more than %d", marks, maxMarks),
			"large generated graphs are better written as WfFormat or DAX")
	}
	// The YAML package refuses a file that says it is YAML 1.2, whatever is in it.
	if rest, ok := bytes.CutPrefix(data, []byte("%YAML 1.2")); ok {
		data = slices.Concat([]byte("%YAML 1.1"), rest)
	}
	var roots []*yaml.Node
	dec := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var doc yaml.Node
		err := dec.Decode(&doc)
		if errors.Is(err, io.EOF) && len(roots) == 0 {
			return nil, Reader{}, fault.New("the file is empty", "")
		}
		if errors.Is(err, io.EOF) {
			return roots, Reader{visits: min(1000+visitsPerMark*marks, maxVisits)}, nil
		}
		if err != nil {
			return nil, Reader{}, syntax(data, err)
		}
		if doc.Kind == yaml.DocumentNode && len(doc.Content) == 1 && !IsNull(doc.Content[0]) {
			roots = append(roots, doc.Content[0])
		}
	}
}

// countMarks counts the characters that can begin a YAML node, whether they do or stand in a script. An
// entry in braces without a colon counts twice, for it is a key and a value.
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

// syntax makes an Error of what the YAML package says, whose lines are sometimes one too few.
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

// tabAt finds the tab that the YAML package refuses, if it does. What it says of a text that a tab ends has the line
// where the text begins, and the tab is in a line below that is indented less than the text.
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
			// A sign after the tab may be what is refused.
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
	if n.Kind == yaml.AliasNode {
		return n.Alias, nil // which is never an alias itself
	}
	return n, nil
}

// PositionOf is where a node stands in its file.
func PositionOf(n *yaml.Node) fault.Position {
	return fault.Position{Line: int32(n.Line), Column: int32(n.Column)} //nolint:gosec // at most MaxFileBytes
}

// Fault makes an error at a node.
func (r *Reader) Fault(n *yaml.Node, reason, hint string) error {
	return fault.At(PositionOf(n), fault.New(reason, hint))
}

// Mapping returns the fields of a mapping in the order of the file, those of merged mappings last.
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

// merge adds the fields of a merged mapping (<<: *defaults) that are not there yet.
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

// ReadFields reads a mapping of known fields into into.
func ReadFields[T any](r *Reader, n *yaml.Node, known Fields[T], into T) error {
	entries, err := r.Mapping(n)
	if err != nil {
		return err
	}
	for _, e := range entries {
		read, ok := known[e.Key]
		if !ok {
			return fault.WithinKey(e.Key, r.Unknown(e, known.Names()))
		}
		if err := read(into, e.Node); err != nil {
			return fault.WithinKey(e.Key, fault.At(PositionOf(e.Node), err))
		}
	}
	return nil
}

// Unknown is the error about a field that its mapping does not have.
func (r *Reader) Unknown(e Entry, known []string) error {
	return r.Fault(e.Name, "unknown field", fault.OneOf(e.Key, known))
}

// List calls each with every element of a sequence.
func (r *Reader) List(n *yaml.Node, each func(i int, n *yaml.Node) error) error {
	if n.Kind != yaml.SequenceNode {
		hint := ""
		if n.Kind == yaml.ScalarNode {
			hint = asList(n, each(0, n) == nil)
		}
		return r.Fault(n, "must be a list, not "+Describe(n), hint)
	}
	for i, c := range n.Content {
		c, err := r.visit(c)
		if err == nil {
			err = fault.At(PositionOf(c), each(i, c))
		}
		if err != nil {
			return fault.Within(fault.Index(i), err)
		}
	}
	return nil
}

// asList says how a scalar is written where a list is wanted. It is shown as the only element if it could be one.
func asList(n *yaml.Node, element bool) string {
	const longest = 64
	word := regexp.MustCompile(`^[\w/.]([\w/.:@+-]*[\w/.])?$`) // what needs no quotes in either way to write a list
	switch {
	case IsNull(n):
		return "give one, or leave the field out"
	case element && len(n.Value) <= longest && word.MatchString(n.Value):
		return fmt.Sprintf(`write [%s], or a line "- %s" for each`, n.Value, n.Value)
	}
	return `begin each element with "- ", in a line of its own`
}

// Text returns a scalar as it is written, whatever YAML takes it for.
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

// Boolean reads a truth value in the words of YAML 1.1 and 1.2.
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

// IsNull says whether a field is there without a value.
func IsNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

// Describe names the kind of a node as people do.
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

// Texts reads a mapping of texts, each of which is checked with its name. Errors have the name and the line.
func (r *Reader) Texts(n *yaml.Node, check func(name, text string) error) (map[string]string, error) {
	entries, err := r.Mapping(n)
	if err != nil {
		return nil, err
	}
	all := make(map[string]string, len(entries))
	for _, e := range entries {
		if all[e.Key], err = r.Text(e.Node); err == nil {
			err = fault.At(PositionOf(e.Node), check(e.Key, all[e.Key]))
		}
		if err != nil {
			return nil, fault.WithinKey(e.Key, err)
		}
	}
	return all, nil
}

// TextField reads a field of text through parse, which also checks it.
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

// Checked is a parse function for text that is taken as it is.
func Checked(check func(string) error) func(string) (string, error) {
	return func(s string) (string, error) { return s, check(s) }
}

// Names are the names of the fields, in order.
func (f Fields[T]) Names() []string {
	return slices.Sorted(maps.Keys(f))
}
