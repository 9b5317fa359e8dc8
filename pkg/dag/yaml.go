package dag

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// yamlReader walks the node tree of a YAML file. It knows only the fields it is asked for, so it
// goes no deeper than they do, and counts every node it visits, so that aliases cannot multiply.
type yamlReader struct {
	file   string
	visits int // that are left
}

// entry is a field of a mapping.
type entry struct {
	key        string
	name, node *yaml.Node // the key, and the value with aliases followed
}

// fields are the fields that a mapping may have, each with what reads it into a T. They may come in
// any order and any may be absent.
type fields[T any] map[string]func(into T, node *yaml.Node) error

// yamlDocs are the documents of a file that are not empty. There is at least one.
type yamlDocs struct {
	roots  []*yaml.Node
	visits int // how many nodes may be read, with aliases
}

func decodeYAML(data []byte) (yamlDocs, error) {
	marks := countMarks(data)
	if marks > maxYAMLMarks {
		return yamlDocs{}, overLimit(fmt.Sprintf("the YAML has %d marks that begin values, more than %d", marks, maxYAMLMarks),
			"large generated graphs are better written as WfFormat or DAX")
	}
	// The YAML package refuses a file that says it is YAML 1.2, whatever is in it.
	if rest, ok := bytes.CutPrefix(data, []byte("%YAML 1.2")); ok {
		data = slices.Concat([]byte("%YAML 1.1"), rest)
	}
	docs := yamlDocs{visits: min(1000+visitsPerMark*marks, maxYAMLVisits)}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var doc yaml.Node
		err := dec.Decode(&doc)
		if errors.Is(err, io.EOF) && len(docs.roots) == 0 {
			return docs, fault("the file is empty", "")
		}
		if errors.Is(err, io.EOF) {
			return docs, nil
		}
		if err != nil {
			return yamlDocs{}, yamlSyntax(data, err)
		}
		if doc.Kind == yaml.DocumentNode && len(doc.Content) == 1 {
			if root := doc.Content[0]; root.Kind != yaml.ScalarNode || root.ShortTag() != "!!null" {
				docs.roots = append(docs.roots, root)
			}
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

// yamlSyntax makes an Error of what the YAML package says, whose lines are sometimes one too few.
func yamlSyntax(data []byte, err error) error {
	e := &Error{Line: 1, cause: err}
	parts := regexp.MustCompile(`(?s)^yaml: (?:line (\d+): )?(.*)$`).FindStringSubmatch(err.Error())
	if parts == nil {
		e.Reason = "is not YAML: " + err.Error()
		return e
	}
	reason := parts[2]
	if n, err := strconv.Atoi(parts[1]); err == nil {
		e.Line = n
	}
	if strings.HasPrefix(reason, "did not find expected") && !strings.Contains(reason, "character") && !strings.Contains(reason, "comment") {
		e.Line++ // the parser, unlike the scanner below it, counts lines from 0
	}
	if anchor := regexp.MustCompile(`^unknown anchor '([^']*)'`).FindStringSubmatch(reason); anchor != nil {
		if i := bytes.Index(data, []byte("*"+anchor[1])); i >= 0 {
			e.Line, e.Column = lineColumn(data, i)
		}
	}
	e.Reason = "is not YAML: " + reason
	switch {
	case strings.Contains(reason, "cannot start any token"):
		e.Hint = "indent with spaces, not tabs, and put text that begins with a sign in quotes"
	case strings.Contains(reason, "mapping values are not allowed"):
		e.Hint = "check the indentation, and put text that contains ': ' in quotes"
	case strings.HasPrefix(reason, "did not find expected key"), strings.HasPrefix(reason, "could not find expected ':'"):
		e.Hint = "check the indentation here and below"
	}
	return e
}

// visit follows an alias and counts the node.
func (r *yamlReader) visit(n *yaml.Node) (*yaml.Node, error) {
	if r.visits--; r.visits < 0 {
		return nil, at(positionOf(n), overLimit("aliases expand to too many values", "write fewer of them"))
	}
	if n.Kind == yaml.AliasNode {
		return n.Alias, nil // which is never an alias itself
	}
	return n, nil
}

func positionOf(n *yaml.Node) position {
	return position{line: int32(n.Line), column: int32(n.Column)} //nolint:gosec // at most MaxFileBytes
}

// fault makes an error at a node.
func (r *yamlReader) fault(n *yaml.Node, reason, hint string) error {
	return at(positionOf(n), fault(reason, hint))
}

// mapping returns the fields of a mapping in the order of the file, those of merged mappings last.
func (r *yamlReader) mapping(n *yaml.Node) ([]entry, error) {
	if n.Kind != yaml.MappingNode {
		return nil, r.fault(n, "must be a mapping of fields, not "+describe(n), "")
	}
	entries := make([]entry, 0, len(n.Content)/2)
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
			return nil, r.fault(name, "the name of a field must be a word, not "+describe(name), "")
		}
		if name.ShortTag() == "!!merge" {
			merged = append(merged, node)
			continue
		}
		if first, ok := seen[name.Value]; ok {
			return nil, withinKey(name.Value, r.fault(name, fmt.Sprintf("is given twice, first in line %d", first), "remove one"))
		}
		seen[name.Value] = name.Line
		entries = append(entries, entry{key: name.Value, name: name, node: node})
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
func (r *yamlReader) merge(entries []entry, seen map[string]int, n *yaml.Node, depth int) ([]entry, error) {
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
		return nil, r.fault(n, "only mappings can be merged with <<", "")
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
			entries = append(entries, entry{key: name.Value, name: name, node: node})
		}
	}
	return entries, nil
}

// readFields reads a mapping of known fields into into.
func readFields[T any](r *yamlReader, n *yaml.Node, known fields[T], into T) error {
	entries, err := r.mapping(n)
	if err != nil {
		return err
	}
	for _, e := range entries {
		read, ok := known[e.key]
		if !ok {
			return withinKey(e.key, r.unknown(e, known.names()))
		}
		if err := read(into, e.node); err != nil {
			return withinKey(e.key, at(positionOf(e.node), err))
		}
	}
	return nil
}

// unknown is the error about a field that its mapping does not have.
func (r *yamlReader) unknown(e entry, known []string) error {
	return r.fault(e.name, "unknown field", oneOf(e.key, known))
}

// list calls each with every element of a sequence.
func (r *yamlReader) list(n *yaml.Node, each func(i int, n *yaml.Node) error) error {
	if n.Kind != yaml.SequenceNode {
		return r.fault(n, "must be a list, not "+describe(n), "")
	}
	for i, c := range n.Content {
		c, err := r.visit(c)
		if err == nil {
			err = at(positionOf(c), each(i, c))
		}
		if err != nil {
			return within(index(i), err)
		}
	}
	return nil
}

// text returns a scalar as it is written, whatever YAML takes it for.
func (r *yamlReader) text(n *yaml.Node) (string, error) {
	if n.Kind != yaml.ScalarNode {
		return "", r.fault(n, "must be text, not "+describe(n), "")
	}
	switch n.ShortTag() {
	case "!!null":
		return "", r.fault(n, "has no value", "give one, or leave the field out")
	case "!!str", "!!int", "!!float", "!!bool", "!!timestamp", "!!merge":
		return n.Value, at(positionOf(n), checkString(n.Value))
	}
	return "", r.fault(n, "has the tag "+quote(n.Tag)+", which means nothing here", "remove it")
}

// boolean reads a truth value in the words of YAML 1.1 and 1.2.
func (r *yamlReader) boolean(n *yaml.Node) (bool, error) {
	s, err := r.text(n)
	if err != nil {
		return false, err
	}
	switch strings.ToLower(s) {
	case "true", "yes", "on":
		return true, nil
	case "false", "no", "off":
		return false, nil
	}
	return false, r.fault(n, quote(s)+" is neither true nor false", "")
}

// isNull says whether a field is there without a value.
func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

func describe(n *yaml.Node) string {
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

// textField reads a field of text through parse, which also checks it.
func textField[T, V any](r *yamlReader, to func(T) *V, parse func(string) (V, error)) func(T, *yaml.Node) error {
	return func(into T, n *yaml.Node) error {
		s, err := r.text(n)
		if err != nil {
			return err
		}
		v, err := parse(s)
		if err != nil {
			return at(positionOf(n), err)
		}
		*to(into) = v
		return nil
	}
}

// checked is a parse function for text that is taken as it is.
func checked(check func(string) error) func(string) (string, error) {
	return func(s string) (string, error) { return s, check(s) }
}

func (f fields[T]) names() []string {
	return sortedKeys(f)
}
