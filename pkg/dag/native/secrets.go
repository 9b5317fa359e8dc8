package native

import (
	"go.yaml.in/yaml/v3"

	"github.com/tradewind-broker/tradewind/internal/base/fault"
	"github.com/tradewind-broker/tradewind/internal/base/yamlfile"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/dag/internal/jobtext"
)

// secretPosition is the name of a secret and its position in the file.
type secretPosition struct {
	name string
	mark dag.Mark
}

// readSecrets reads secrets: a list of names, or a mapping from names to values, references to stored values, or
// null.
func (r *reader) readSecrets(n *yaml.Node, path string) (secrets []secretPosition, err error) {
	add := func(name string, at *yaml.Node) error {
		if err := jobtext.CheckEnvName(name); err != nil {
			return fault.At(yamlfile.PositionOf(at), err)
		}
		secrets = append(secrets, secretPosition{name, dag.Mark{
			Alternative: dag.FilesOfTask, Pos: yamlfile.PositionOf(at), Field: dag.SecretField(name),
			Path: fault.Join(path, fault.KeyElement(name)),
		}})
		return nil
	}
	if n.Kind == yaml.SequenceNode {
		err = r.List(n, func(_ int, n *yaml.Node) error {
			name, err := r.Text(n)
			return firstOf(err, func() error { return add(name, n) })
		})
		return secrets, err
	}
	entries, err := r.Mapping(n)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if err := add(e.Key, e.Name); err != nil {
			return nil, fault.WithinKey(e.Key, err)
		}
		if yamlfile.IsNull(e.Node) {
			continue // the user passes it at submission
		}
		value, err := r.Text(e.Node)
		if err == nil {
			err = fault.At(yamlfile.PositionOf(e.Node), r.job.AddSecretValue(e.Key, value))
		}
		if err != nil {
			return nil, fault.WithinKey(e.Key, err)
		}
	}
	return secrets, nil
}

// addSecrets adds secrets to a task.
func (r *reader) addSecrets(t *dag.Task, secrets []secretPosition) error {
	for _, s := range secrets {
		if _, both := t.Env[s.name]; both {
			return errBoth(s.name)
		}
		t.AddSecrets(s.name)
		r.files = append(r.files, s.mark)
	}
	return nil
}

// addJobSecrets adds the job's secrets to a task, except those that it has as variables.
func (r *reader) addJobSecrets(t *dag.Task) {
	if t.StandIn() {
		return
	}
	for _, s := range r.secrets {
		if _, hidden := t.Env[s.name]; !hidden {
			t.AddSecrets(s.name)
		}
	}
}

// notBoth rejects a name that is in env and also in secrets of a task.
func notBoth(t *dag.Task) error {
	for _, name := range t.Secrets {
		if _, both := t.Env[name]; both {
			return errBoth(name)
		}
	}
	return nil
}

func errBoth(name string) error {
	return fault.WithinKey(name, fault.New("is in both env and secrets", "remove one"))
}
