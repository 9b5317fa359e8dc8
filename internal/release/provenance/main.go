// Command provenance describes the sources of the files of a release: it prints an in-toto statement with a SLSA
// predicate for the files in a list of checksums. The statement is not signed; the release process signs it.
//
//	provenance -checksums dist/release/checksums.txt -commit COMMIT -builder URL >provenance.intoto.json
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"runtime"
	"strings"
)

// source is the repository from which the product is built.
const source = "git+https://github.com/tradewind-broker/tradewind"

// Statement is an in-toto statement v1 with a SLSA provenance v1 predicate. It has only the fields that this build
// fills.
type Statement struct {
	Type          string    `json:"_type"`
	Subject       []Subject `json:"subject"`
	PredicateType string    `json:"predicateType"`
	Predicate     Predicate `json:"predicate"`
}

// Subject is one file.
type Subject struct {
	Name   string            `json:"name"`
	Digest map[string]string `json:"digest"`
}

// Predicate describes how the files were built.
type Predicate struct {
	BuildDefinition BuildDefinition `json:"buildDefinition"`
	RunDetails      RunDetails      `json:"runDetails"`
}

// BuildDefinition describes the build and its inputs.
type BuildDefinition struct {
	BuildType            string            `json:"buildType"`
	ExternalParameters   map[string]string `json:"externalParameters"`
	ResolvedDependencies []Dependency      `json:"resolvedDependencies"`
}

// Dependency is an input of the build.
type Dependency struct {
	URI    string            `json:"uri"`
	Digest map[string]string `json:"digest,omitempty"`
}

// RunDetails identifies the builder.
type RunDetails struct {
	Builder struct {
		ID string `json:"id"`
	} `json:"builder"`
}

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "provenance:", err)
		os.Exit(1)
	}
}

var digest = map[string]*regexp.Regexp{
	"sha256":    regexp.MustCompile(`^[0-9a-f]{64}$`),
	"gitCommit": regexp.MustCompile(`^[0-9a-f]{40}$`),
}

func run(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("provenance", flag.ContinueOnError)
	checksums := flags.String("checksums", "", "file with SHA-256 sums in the format of sha256sum")
	commit := flags.String("commit", "", "commit that was built")
	builder := flags.String("builder", "", "URL of the builder")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if !digest["gitCommit"].MatchString(*commit) || *builder == "" {
		return errors.New("-commit must be a full commit ID, and -builder a URL")
	}
	file, err := os.Open(*checksums)
	if err != nil {
		return err
	}
	defer file.Close() //nolint:errcheck // read-only
	subjects, err := read(file)
	if err != nil {
		return fmt.Errorf("%s: %w", *checksums, err)
	}
	s := Statement{
		Type: "https://in-toto.io/Statement/v1", Subject: subjects, PredicateType: "https://slsa.dev/provenance/v1",
		Predicate: Predicate{BuildDefinition: BuildDefinition{
			BuildType:          "https://github.com/tradewind-broker/tradewind/blob/main/.goreleaser.yaml",
			ExternalParameters: map[string]string{"config": ".goreleaser.yaml"},
			ResolvedDependencies: []Dependency{
				{URI: source, Digest: map[string]string{"gitCommit": *commit}},
				{URI: "pkg:golang/toolchain@" + runtime.Version()},
			},
		}},
	}
	s.Predicate.RunDetails.Builder.ID = *builder
	enc := json.NewEncoder(out)
	enc.SetIndent("", "  ")
	return enc.Encode(s)
}

// read parses lines of a digest and a file name.
func read(r io.Reader) (out []Subject, err error) {
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		sum, name, found := strings.Cut(lines.Text(), "  ")
		if !found || name == "" || !digest["sha256"].MatchString(sum) {
			return nil, fmt.Errorf("line %d is not a SHA-256 sum with a file name", n)
		}
		out = append(out, Subject{Name: name, Digest: map[string]string{"sha256": sum}})
	}
	if len(out) == 0 && lines.Err() == nil {
		return nil, errors.New("no files in the list")
	}
	return out, lines.Err()
}
