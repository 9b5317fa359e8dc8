package kubernetes

import (
	"fmt"
	"slices"

	"github.com/tradewind-broker/tradewind/internal/fault"
	"github.com/tradewind-broker/tradewind/internal/yamlfile"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"go.yaml.in/yaml/v3"
)

// fields are those of a mapping of type T.
type fields[T any] map[string]func(into T, n *yaml.Node) error

// with adds fields to others.
func (f fields[T]) with(more fields[T]) fields[T] {
	for name, read := range more {
		f[name] = read
	}
	return f
}

// readInto reads a mapping. A field without a value is as if it were not there.
func readInto[T any](r *reader, n *yaml.Node, known fields[T], into T) error {
	entries, err := r.Mapping(n)
	if err != nil {
		return err
	}
	for _, e := range entries {
		read, ok := known[e.Key]
		if !ok {
			names := slices.Sorted(mapKeys(known))
			return fault.WithinKey(e.Key, r.Unknown(e, names))
		}
		if yamlfile.IsNull(e.Node) || read == nil {
			continue
		}
		err := r.within(fault.KeyElement(e.Key), func() error { return read(into, e.Node) })
		if err != nil {
			return fault.WithinKey(e.Key, fault.At(yamlfile.PositionOf(e.Node), err))
		}
	}
	return nil
}

// field is the value of one field of a mapping; nil where it has none.
func (r *reader) field(n *yaml.Node, name string) (value *yaml.Node, err error) {
	entries, err := r.Mapping(n)
	for _, e := range entries {
		if e.Key == name && !yamlfile.IsNull(e.Node) {
			value = e.Node
		}
	}
	return value, err
}

func mapKeys[V any](m map[string]V) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// within has warnings name the field that do reads.
func (r *reader) within(element string, do func() error) error {
	r.path = append(r.path, element)
	err := do()
	r.path = r.path[:len(r.path)-1]
	return err
}

// list is List that keeps the path.
func (r *reader) list(n *yaml.Node, each func(i int, n *yaml.Node) error) error {
	return r.List(n, func(i int, n *yaml.Node) error {
		return r.within(fault.Index(i), func() error { return each(i, n) })
	})
}

// where is the path of the field that is read.
func (r *reader) where() string {
	path := ""
	for _, element := range r.path {
		path = fault.Join(path, element)
	}
	return path
}

// warn adds a warning about the field that is read.
func (r *reader) warn(n *yaml.Node, why string) { r.job.Warn(yamlfile.PositionOf(n), r.where(), why) }

const notActedOn = "is read but not acted on"

// ignored are fields that mean something in a cluster and nothing here, each with a warning.
func ignored[T any](r *reader, why string, names ...string) fields[T] {
	f := make(fields[T], len(names))
	for _, name := range names {
		f[name] = func(_ T, n *yaml.Node) error {
			r.warn(n, why)
			return nil
		}
	}
	return f
}

// passed are fields that change nothing about what is done.
func passed[T any](names ...string) fields[T] {
	f := make(fields[T], len(names))
	for _, name := range names {
		f[name] = nil
	}
	return f
}

// denied are fields without which the work would come out differently.
func denied[T any](r *reader, reason, hint string, names ...string) fields[T] {
	f := make(fields[T], len(names))
	for _, name := range names {
		f[name] = func(_ T, n *yaml.Node) error { return r.Fault(n, reason, hint) }
	}
	return f
}

// text reads a field of text.
func text[T any](r *reader, to func(T) *string) func(T, *yaml.Node) error {
	return func(into T, n *yaml.Node) error {
		s, err := r.Text(n)
		*to(into) = s
		return err
	}
}

// count reads a whole number.
func count[T any](r *reader, least, most int, to func(T) *int) func(T, *yaml.Node) error {
	return func(into T, n *yaml.Node) error {
		s, err := r.Text(n)
		if err == nil {
			*to(into), err = dag.ParseInt(s, least, most)
		}
		return err
	}
}

// truth reads true or false.
func truth[T any](r *reader, to func(T) *bool) func(T, *yaml.Node) error {
	return func(into T, n *yaml.Node) (err error) {
		*to(into), err = r.Boolean(n)
		return err
	}
}

// texts reads a mapping of texts.
func (r *reader) texts(n *yaml.Node) (map[string]string, error) {
	entries, err := r.Mapping(n)
	if err != nil {
		return nil, err
	}
	out := make(map[string]string, len(entries))
	for _, e := range entries {
		if yamlfile.IsNull(e.Node) {
			continue
		}
		if out[e.Key], err = r.Text(e.Node); err != nil {
			return nil, fault.WithinKey(e.Key, err)
		}
	}
	return out, nil
}

// words reads a list of texts.
func (r *reader) words(n *yaml.Node) ([]string, error) {
	var out []string
	err := r.list(n, func(_ int, n *yaml.Node) error {
		s, err := r.Text(n)
		out = append(out, s)
		return err
	})
	return out, err
}

// missing is about a field that an object must have.
func (r *reader) missing(n *yaml.Node, field, hint string) error {
	return fault.Within(field, r.Fault(n, "is missing", hint))
}

// maxPods bounds the pods of a workload. Those of one task are its nodes, of which there may be fewer.
const maxPods = 10_000

// pods counts the pods of a workload, or of one task.
func (r *reader) pods(n *yaml.Node, total, most int) error {
	if total > most {
		return r.Fault(n, fmt.Sprintf("%d pods, more than %d", total, most), "")
	}
	return nil
}
