package jobfile

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/joho/godotenv"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/internal/secret"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// Secrets are the flags for a job's secrets. None takes a value itself: everyone on the computer can read command
// lines, and shells record them.
type Secrets struct {
	given []string
	files []string
}

// SecretFlags adds the secret flags to a command.
func SecretFlags(c *cobra.Command) *Secrets {
	s := &Secrets{}
	c.Flags().StringArrayVar(&s.given, "secret", nil,
		"secret of the job: NAME (from the environment variable, else you are asked), NAME=@FILE, NAME=ssm:/path")
	c.Flags().StringArrayVar(&s.files, "secret-file", nil, "file of secrets, one NAME=value per line")
	_ = c.RegisterFlagCompletionFunc("secret", cobra.NoFileCompletions) // the flag exists
	return s
}

// Fill sets the values of a job's secrets from its file and the flags. If one has no value, it fails with the line that
// names the secret.
func (s *Secrets) Fill(a *command.App, f *File) error {
	f.Secrets = dag.SecretValues{}
	for _, path := range s.files {
		if err := readLines(path, f.Secrets, dag.CheckSecret); err != nil {
			return err
		}
	}
	for _, given := range s.given {
		name, value, err := secretOf(a, given)
		if err != nil {
			return err
		}
		f.Secrets[name] = value
	}
	values, changed, err := f.Spec.ResolveSecrets(f.Secrets)
	f.Secrets, f.changed = values, f.changed || changed
	return err
}

// secretOf parses one flag.
func secretOf(a *command.App, given string) (name, value string, err error) {
	name, from, some := strings.Cut(given, "=")
	if err := dag.CheckEnvName(name); err != nil {
		return "", "", command.BadInput("--secret NAME, or --secret NAME=@FILE", "--secret: %s", reasonOf(err))
	}
	path, file := strings.CutPrefix(from, "@")
	_, _, reference := secret.Reference(from)
	switch {
	case !some:
		value, err = fromEnvironment(a, name)
	case reference:
		value = from
	case file:
		var body []byte
		_, body, err = a.ReadInput(path)
		value = strings.TrimRight(string(body), "\r\n")
	default:
		return "", "", command.BadInput(
			fmt.Sprintf("--secret %[1]s reads it from the variable of that name, --secret %[1]s=@FILE from a file, "+
				"and --secret %[1]s=ssm:/path names where it is stored", name),
			"--secret %s: everyone on this computer could read a value on the command line", name)
	}
	if err == nil {
		if bad := dag.CheckSecret(value); bad != nil {
			err = command.BadInput("", "--secret %s: %s", name, reasonOf(bad))
		}
	}
	return name, value, err
}

// fromEnvironment returns the value of a variable, or asks for it at the terminal.
func fromEnvironment(a *command.App, name string) (string, error) {
	if value := a.Lookup(name); value != "" {
		return value, nil
	}
	if in := command.Terminal(a.In); in != nil && command.Terminal(a.Err) != nil {
		_, _ = fmt.Fprintf(a.Err, "%s: ", name)
		typed, err := term.ReadPassword(int(in.Fd())) //nolint:gosec // descriptors are small
		_, _ = fmt.Fprintln(a.Err)
		if err == nil {
			return string(typed), nil
		}
	}
	return "", command.BadInput("export "+name+"=… first, or --secret "+name+"=@FILE",
		"--secret %s: the variable %s is not set", name, name)
}

// readLines reads a .env file, as dotenv does: lines NAME=value with quotes, escapes, comments, and values of several
// lines in quotes. Its errors do not contain a value, which may be a secret.
func readLines(path string, to map[string]string, check func(value string) error) error {
	body, err := command.ReadFile(path)
	if err != nil {
		return err
	}
	if len(body) > dag.MaxEnvBytes {
		return command.BadInput("", "%s: has %d bytes, the maximum is %d", path, len(body), dag.MaxEnvBytes)
	}
	if line, ok := assigns(body); !ok { // the library would read the fields of YAML as variables
		return command.BadInput("NAME=value", "%s:%d: is not NAME=value", path, line)
	}
	values, err := godotenv.UnmarshalBytes(body)
	if err != nil {
		line := lineOf(body, func(text string) bool { return !strings.ContainsAny(text, "=:") })
		return command.BadInput("NAME=value", "%s:%d: is not NAME=value", path, line)
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if err := cmp.Or(dag.CheckEnvName(name), check(values[name])); err != nil {
			line := lineOf(body, func(text string) bool {
				return strings.HasPrefix(strings.TrimSpace(strings.TrimPrefix(text, "export ")), name)
			})
			return command.BadInput("", "%s:%d: %s", path, line, reasonOf(err))
		}
		to[name] = values[name]
	}
	return nil
}

// assigns reports whether the first line that is neither empty nor a comment is an assignment, and returns its number.
func assigns(body []byte) (line int, ok bool) {
	ok = true
	line = lineOf(body, func(text string) bool {
		name, _, found := strings.Cut(text, "=")
		ok = found && !strings.Contains(name, ":")
		return true
	})
	return line, ok
}

// lineOf returns the number of the first line that is, or else of the last line. It skips comments and empty lines.
func lineOf(body []byte, is func(text string) bool) int {
	n := 0
	for line := range strings.Lines(string(body)) {
		n++
		if text := strings.TrimSpace(line); text != "" && text[0] != '#' && is(text) {
			break
		}
	}
	return n
}

// reasonOf returns the reason of an error without its position.
func reasonOf(err error) string {
	var bad *dag.Error
	if errors.As(err, &bad) {
		return bad.Reason
	}
	return err.Error()
}
