// Package settings reads a user's configuration of the command line: defaults for jobs, and the amount above which a
// job needs a confirmation. There are two files, both optional and with the same fields: the user's own, and one next
// to the job. It does not configure brokers.
package settings

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/tradewind-broker/tradewind/internal/base/fault"
	"github.com/tradewind-broker/tradewind/internal/base/yamlfile"
	"github.com/tradewind-broker/tradewind/internal/readable"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/dag/native"
)

// BesideJob is the name of the file next to a job. It begins with a dot, like .tradewindignore, because a job file may
// well be called tradewind.yaml, and because a broker that watches a folder for job files skips hidden ones.
const BesideJob = ".tradewind.yaml"

// DefaultConfirmAbove is the expected cost, in USD, above which a script does not start a job on real clouds without
// --yes.
const DefaultConfirmAbove dag.USD = 10

// Value is a setting and its source: FILE:LINE, or empty if nothing sets it.
type Value[T any] struct {
	Is     T
	Source string
}

// Set reports whether a file sets the value.
func (v Value[T]) Set() bool { return v.Source != "" }

// Settings are the settings of the command line.
type Settings struct {
	// Budget, Queue, Keep, Clouds and Regions are for jobs that name none. Regions are places as in the field regions
	// of a job: aws, gcp:europe-west4, us-east-1 or eu.
	Budget  Value[dag.USD]
	Queue   Value[string]
	Keep    Value[time.Duration]
	Clouds  Value[[]string]
	Regions Value[[]string]
	// ConfirmAbove is the expected cost, in USD, above which a job needs a yes. Trusted reports that the user's own
	// file sets it, so that cheaper jobs start without a question.
	ConfirmAbove Value[dag.USD]
	Trusted      bool
	// Notify is notified of the end of every job of the brokers that the user starts. Only the user's own file sets it.
	Notify Value[dag.Notify]
	// Files are the files that may set values, the strongest last, and whether each exists.
	Files []File
}

// File is a file of settings.
type File struct {
	Path   string `json:"path"`
	Exists bool   `json:"exists"`
}

// UserFile returns the path of the user's file, by the XDG Base Directory Specification (version 0.8): tradewind in
// $XDG_CONFIG_HOME, or in ~/.config if that is unset or not an absolute path. It is empty if there is no home either.
func UserFile(lookup func(string) string) string {
	dir := lookup("XDG_CONFIG_HOME")
	if !filepath.IsAbs(dir) {
		home := lookup("HOME")
		if home == "" {
			return ""
		}
		dir = filepath.Join(home, ".config")
	}
	return filepath.Join(dir, "tradewind", "config.yaml")
}

// Own reads only the user's file.
func Own(lookup func(string) string) (*Settings, error) {
	path := UserFile(lookup)
	if path == "" {
		return &Settings{}, nil
	}
	s, _, err := read(path)
	return s, err
}

// Load reads the user's file and the one in a folder of jobs. A *fault.Error names the file, line and column of a
// fault.
func Load(lookup func(string) string, folder string) (*Settings, error) {
	s := &Settings{ConfirmAbove: Value[dag.USD]{Is: DefaultConfirmAbove}}
	own, err := s.add(UserFile(lookup))
	if err != nil {
		return nil, err
	}
	replace(&s.ConfirmAbove, own.ConfirmAbove)
	s.Trusted = own.ConfirmAbove.Set()
	s.Notify = own.Notify
	// The file next to a job may be a stranger's: it must not allow more spending than the user does.
	beside, err := s.add(filepath.Join(folder, BesideJob))
	if err == nil && beside.Notify.Set() { // nor run commands
		return nil, fault.New(beside.Notify.Source+": notify is not read from this file",
			"set it in "+UserFile(lookup)+", or in the job file")
	}
	if err == nil && beside.ConfirmAbove.Is <= s.ConfirmAbove.Is {
		replace(&s.ConfirmAbove, beside.ConfirmAbove)
	}
	return s, err
}

// add reads a file and replaces the defaults for jobs that it sets. It returns all that the file sets.
func (s *Settings) add(path string) (*Settings, error) {
	if path == "" {
		return &Settings{}, nil
	}
	found, exists, err := read(path)
	if err != nil {
		return found, err
	}
	s.Files = append(s.Files, File{path, exists})
	replace(&s.Budget, found.Budget)
	replace(&s.Queue, found.Queue)
	replace(&s.Keep, found.Keep)
	replace(&s.Clouds, found.Clouds)
	replace(&s.Regions, found.Regions)
	return found, nil
}

func replace[T any](v *Value[T], with Value[T]) {
	if with.Set() {
		*v = with
	}
}

// read reads one file. A file that does not exist sets nothing.
func read(path string) (s *Settings, exists bool, err error) {
	s = &Settings{}
	body, err := os.ReadFile(path) //nolint:gosec // the user's settings
	if errors.Is(err, fs.ErrNotExist) {
		return s, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("settings: %w", err)
	}
	if onlyComments(body) {
		return s, true, nil
	}
	return s, true, fault.InFile(path, s.parse(path, body))
}

func onlyComments(body []byte) bool {
	for line := range bytes.Lines(body) {
		if line = bytes.TrimSpace(line); len(line) > 0 && line[0] != '#' {
			return false
		}
	}
	return true
}

func (s *Settings) parse(path string, body []byte) error {
	docs, from, err := yamlfile.Decode(body)
	if err != nil {
		return err
	}
	switch len(docs) {
	case 0: // only comments
		return nil
	case 1:
	default:
		return from.Fault(docs[1], "there is a second document", "remove the line --- above it")
	}
	y := &from
	at := func(n *yaml.Node) string { return fmt.Sprintf("%s:%d", path, n.Line) }
	return yamlfile.ReadFields(y, docs[0], yamlfile.Fields[*Settings]{
		"budget": func(s *Settings, n *yaml.Node) error {
			return scalar(y, n, &s.Budget, at, dag.ParseBudget)
		},
		"confirmAbove": func(s *Settings, n *yaml.Node) error {
			return scalar(y, n, &s.ConfirmAbove, at, dag.ParseAmount)
		},
		"queue": func(s *Settings, n *yaml.Node) error {
			return scalar(y, n, &s.Queue, at, func(text string) (string, error) { return text, dag.CheckName(text) })
		},
		"keep": func(s *Settings, n *yaml.Node) error {
			return scalar(y, n, &s.Keep, at, dag.ParseKeep)
		},
		"clouds": func(s *Settings, n *yaml.Node) error {
			return list(y, n, &s.Clouds, at, dag.CheckCloud)
		},
		"notify": func(s *Settings, n *yaml.Node) error {
			s.Notify.Source = at(n)
			return native.ReadNotify(y, n, &s.Notify.Is)
		},
		"regions": func(s *Settings, n *yaml.Node) error {
			return list(y, n, &s.Regions, at, dag.CheckPlace)
		},
	}, s)
}

func scalar[T any](y *yamlfile.Reader, n *yaml.Node, v *Value[T], at func(*yaml.Node) string,
	parse func(string) (T, error)) error {
	text, err := y.Text(n)
	if err != nil {
		return err
	}
	v.Source = at(n)
	v.Is, err = parse(text)
	return err
}

func list(y *yamlfile.Reader, n *yaml.Node, v *Value[[]string], at func(*yaml.Node) string,
	check func(string) error) error {
	v.Source = at(n)
	return y.List(n, func(_ int, n *yaml.Node) error {
		text, err := y.Text(n)
		if err != nil {
			return err
		}
		v.Is = append(v.Is, text)
		return check(text)
	})
}

// Row is a setting for people and programs.
type Row struct {
	Name   string `json:"name"`
	Value  any    `json:"value"`  // null if nothing sets it
	Source string `json:"source"` // FILE:LINE, or default
	Text   string `json:"-"`      // the value for people
}

// Rows returns every setting with its source.
func (s *Settings) Rows() []Row {
	return []Row{
		row("budget", s.Budget, float64(s.Budget.Is), usd(s.Budget.Is), "unlimited"),
		row("clouds", s.Clouds, s.Clouds.Is, strings.Join(s.Clouds.Is, ", "), "all clouds of the broker"),
		row("regions", s.Regions, s.Regions.Is, strings.Join(s.Regions.Is, ", "), "all regions"),
		row("keep", s.Keep, dag.FormatKeep(s.Keep.Is), dag.FormatKeep(s.Keep.Is), "as the queue or the broker says"),
		row("notify", s.Notify, s.Notify.Is, describe(s.Notify.Is), "no one"),
		row("queue", s.Queue, s.Queue.Is, s.Queue.Is, "default"),
		{Name: "confirmAbove", Value: float64(s.ConfirmAbove.Is), Source: source(s.ConfirmAbove),
			Text: usd(s.ConfirmAbove.Is)},
	}
}

// describe names the kinds of recipients; the URL of a webhook may contain a secret.
func describe(n dag.Notify) string {
	var kinds []string
	if n.Webhook != "" {
		kinds = append(kinds, "a webhook")
	}
	if n.Command != "" {
		kinds = append(kinds, "a command")
	}
	return strings.Join(append(kinds, n.Email...), ", ")
}

func row[T any](name string, v Value[T], value any, text, otherwise string) Row {
	if !v.Set() {
		return Row{Name: name, Source: source(v), Text: otherwise}
	}
	return Row{Name: name, Value: value, Source: v.Source, Text: text}
}

func source[T any](v Value[T]) string {
	if !v.Set() {
		return "default"
	}
	return v.Source
}

func usd(v dag.USD) string { return readable.USD(float64(v)) + " USD" }
