package dag

import (
	"fmt"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// forDefaults are the fields of defaults, each of which a task replaces as a whole.
func (r *nativeReader) forDefaults() fields[*Task] {
	y := &r.yamlReader
	return fields[*Task]{
		"setup":   textField(y, func(t *Task) *string { return &t.Setup }, checked(checkScript)),
		"workdir": textField(y, func(t *Task) *string { return &t.Workdir }, checked(checkURI)),
		"nodes": textField(y, func(t *Task) *int { return &t.Nodes }, func(s string) (int, error) {
			return parseInt(s, 1, MaxNodes)
		}),
		"retries": textField(y, func(t *Task) *int { return &t.Retries }, func(s string) (int, error) {
			return parseInt(s, 0, MaxRetries)
		}),
		"checkpoint": func(t *Task, n *yaml.Node) error {
			t.Checkpoint = new(Checkpoint)
			return r.readCheckpoint(t.Checkpoint, n)
		},
		"time":      func(t *Task, n *yaml.Node) error { return r.readTime(&t.Time, n) },
		"resources": r.readResources,
	}
}

func (r *nativeReader) forTask() fields[*Task] {
	known := r.forDefaults()
	y := &r.yamlReader
	known["run"] = textField(y, func(t *Task) *string { return &t.Run }, checked(checkScript))
	known["recorded"] = textField(y, func(t *Task) *time.Duration { return &t.Recorded }, parseDuration)
	known["env"] = func(t *Task, n *yaml.Node) error {
		env, err := r.readEnv(n)
		return firstOf(err, func() error { return r.addEnv(t, env) })
	}
	known["secrets"] = func(t *Task, n *yaml.Node) error {
		env, err := r.readEnv(n)
		t.Secrets = sortedKeys(env)
		return firstOf(err, func() error { return r.addEnv(t, env) })
	}
	known["after"] = func(_ *Task, n *yaml.Node) error {
		return r.list(n, func(i int, n *yaml.Node) error { return r.readAfter(i, n) })
	}
	known["inputs"] = func(t *Task, n *yaml.Node) error {
		return r.list(n, func(i int, n *yaml.Node) error { return r.readInput(t, i, n) })
	}
	known["outputs"] = r.readOutputs
	readGang := textField(y, func(t *Task) *string { return &t.Gang }, checked(checkName))
	known["gang"] = func(t *Task, n *yaml.Node) error {
		if r.gangs == nil {
			r.gangs = map[int]position{}
		}
		r.gangs[r.current] = positionOf(n)
		return readGang(t, n)
	}
	return known
}

// firstOf returns err, or else what next returns.
func firstOf(err error, next func() error) error {
	if err != nil {
		return err
	}
	return next()
}

// addEnv adds variables of env or secrets, which must not both have one.
func (r *nativeReader) addEnv(t *Task, env map[string]string) error {
	for name := range t.Env {
		if _, both := env[name]; both {
			return withinKey(name, fault("is in both env and secrets", "remove one"))
		}
	}
	t.Env = overlay(t.Env, env)
	return nil
}

func (r *nativeReader) readCheckpoint(c *Checkpoint, n *yaml.Node) error {
	y := &r.yamlReader
	err := readFields(y, n, fields[*Checkpoint]{
		"every": textField(y, func(c *Checkpoint) *time.Duration { return &c.Every }, parseDuration),
		"path":  textField(y, func(c *Checkpoint) *string { return &c.Path }, checked(checkInside)),
		"size":  textField(y, func(c *Checkpoint) *GiB { return &c.Size }, parseSize),
	}, c)
	if err == nil && c.Path == "" {
		err = within("path", r.fault(n, "is missing", "say where in the task's directory checkpoints are written"))
	}
	return err
}

// readTime reads an estimate: one time, or a mapping of accelerators and instance types to times.
func (r *nativeReader) readTime(t *TimeEstimate, n *yaml.Node) error {
	*t = TimeEstimate{}
	if n.Kind == yaml.ScalarNode {
		return textField(&r.yamlReader, func(t *TimeEstimate) *time.Duration { return &t.Default }, parseDuration)(t, n)
	}
	entries, err := r.mapping(n)
	if err != nil {
		return err
	}
	for _, e := range entries {
		var d time.Duration
		s, err := r.text(e.node)
		if err == nil {
			d, err = parseDuration(s)
		}
		if err != nil {
			return withinKey(e.key, at(positionOf(e.node), err))
		}
		if e.key == defaultTimeKey {
			t.Default = d
			continue
		}
		key, err := timeKey(e.key)
		if _, twice := t.On[key]; twice && err == nil {
			err = fault("is given twice, in two spellings of "+quote(key), "remove one")
		}
		if err != nil {
			return withinKey(e.key, at(positionOf(e.name), err))
		}
		if t.On == nil {
			t.On = make(map[string]time.Duration, len(entries))
		}
		t.On[key] = d
	}
	if t.Default == 0 && t.On == nil {
		return r.fault(n, "is empty", timeHint)
	}
	return nil
}

// defaultTimeKey is the key of the estimate on everything else.
const defaultTimeKey = "default"

// timeKey is the canonical form of a key of estimates: NAME or NAME:COUNT of an accelerator, or an
// instance type. No instance type has a colon, and those of the clouds are more than one word, so
// that a word which is nearly an accelerator is a slip.
func timeKey(s string) (string, error) {
	if !strings.Contains(s, ":") {
		name, err := normalizeAccelerator(s)
		if err != nil && strings.ContainsAny(s, ".-_") {
			return s, checkWord(s)
		}
		if err != nil {
			return "", err
		}
		return name, checkWord(name)
	}
	name, count, err := parseAccelerator(s)
	if err != nil {
		return "", err
	}
	return AcceleratorKey(name, count), nil
}

func (r *nativeReader) forOutput() fields[*Output] {
	y := &r.yamlReader
	return fields[*Output]{
		"name": textField(y, func(o *Output) *string { return &o.Name }, checked(checkName)),
		"path": textField(y, func(o *Output) *string { return &o.Path }, checked(checkInside)),
		"uri":  textField(y, func(o *Output) *string { return &o.URI }, checked(checkURI)),
		"size": textField(y, func(o *Output) *GiB { return &o.Size }, parseSize),
	}
}

func (r *nativeReader) readOutputs(t *Task, n *yaml.Node) error {
	seen := make(map[string]bool, len(n.Content))
	return r.list(n, func(i int, n *yaml.Node) error {
		var o Output
		if err := readFields(&r.yamlReader, n, r.outputFields, &o); err != nil {
			return err
		}
		switch {
		case o.Name == "":
			return within("name", r.fault(n, "is missing", "say what the output is called"))
		case seen[o.Name]:
			return within("name", r.fault(n, "there are two outputs "+quote(o.Name), "rename one"))
		case i == MaxFiles:
			return overLimit(fmt.Sprintf("more than %d outputs", MaxFiles), "")
		}
		seen[o.Name] = true
		t.Outputs = append(t.Outputs, o)
		return nil
	})
}
