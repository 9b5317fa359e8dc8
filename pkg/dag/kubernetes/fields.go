package kubernetes

import (
	"fmt"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/tradewind-broker/tradewind/internal/base/fault"
	"github.com/tradewind-broker/tradewind/internal/base/yamlfile"

	"github.com/tradewind-broker/tradewind/pkg/dag/internal/jobtext"
)

// fields are the known fields of a mapping that is read into a T.
type fields[T any] map[string]func(into T, n *yaml.Node) error

// with adds fields to others.
func (f fields[T]) with(more fields[T]) fields[T] {
	for name, read := range more {
		f[name] = read
	}
	return f
}

// readInto reads a mapping. A field without a value counts as missing. The error has the faults of all fields.
func readInto[T any](r *reader, n *yaml.Node, known fields[T], into T) error {
	return r.Each(n, func(e yamlfile.Entry) error {
		read, ok := known[e.Key]
		if !ok {
			return r.Unknown(e, slices.Sorted(mapKeys(known)))
		}
		if yamlfile.IsNull(e.Node) || read == nil {
			return nil
		}
		return r.within(fault.KeyElement(e.Key), func() error { return read(into, e.Node) })
	})
}

// field returns the value of one field of a mapping, or nil if it is missing.
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

// within adds an element to the path while do runs, so that warnings name the field.
func (r *reader) within(element string, do func() error) error {
	r.path = append(r.path, element)
	err := do()
	r.path = r.path[:len(r.path)-1]
	return err
}

// list is List, but it also updates the path.
func (r *reader) list(n *yaml.Node, each func(i int, n *yaml.Node) error) error {
	return r.List(n, func(i int, n *yaml.Node) error {
		return r.within(fault.Index(i), func() error { return each(i, n) })
	})
}

// where returns the path of the field that is being read.
func (r *reader) where() string {
	path := ""
	for _, element := range r.path {
		path = fault.Join(path, element)
	}
	return path
}

// warn adds a warning about the field that is being read.
func (r *reader) warn(n *yaml.Node, why string) { r.job.Warn(yamlfile.PositionOf(n), r.where(), why) }

const notActedOn = "is read but ignored"

// ignored returns fields that have an effect only in a cluster; each gets a warning.
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

// suspended reads a field that would make a workload wait.
func suspended[T any](r *reader) func(T, *yaml.Node) error {
	return func(_ T, n *yaml.Node) error {
		if on, err := r.Boolean(n); err != nil || !on {
			return err
		}
		r.warn(n, "is ignored: the job's queue decides when it starts")
		return nil
	}
}

// silentlyIgnored returns fields that do not change the work, and so need no warning.
func silentlyIgnored[T any](names ...string) fields[T] {
	f := make(fields[T], len(names))
	for _, name := range names {
		f[name] = nil
	}
	return f
}

// unsupported returns fields that are errors, because ignoring them would change the result of the work.
func unsupported[T any](r *reader, reason, hint string, names ...string) fields[T] {
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
			*to(into), err = jobtext.ParseInt(s, least, most)
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
	out := map[string]string{}
	return out, r.Each(n, func(e yamlfile.Entry) (err error) {
		if !yamlfile.IsNull(e.Node) {
			out[e.Key], err = r.Text(e.Node)
		}
		return err
	})
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

// missing returns the error for a required field that is missing.
func (r *reader) missing(n *yaml.Node, field, hint string) error {
	return fault.Within(field, r.Fault(n, "is missing", hint))
}

// maxPods limits the pods of a workload. A single task has a lower limit, because its pods are its nodes.
const maxPods = 10_000

// pods returns an error if a workload or a task has too many pods.
func (r *reader) pods(n *yaml.Node, total, most int) error {
	if total > most {
		return r.Fault(n, fmt.Sprintf("%d pods, more than %d", total, most), "")
	}
	return nil
}
