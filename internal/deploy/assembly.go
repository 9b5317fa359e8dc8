package deploy

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Assembly is a folder that infra/ has synthesised.
type Assembly struct {
	Dir    string
	Stacks []Stack // the deployment's own first
}

// Stack is one template with the files to which it refers.
type Stack struct {
	Name     string
	Region   string // empty: the region of the target
	Template Asset
	Assets   []Asset
	// Protected enables termination protection.
	Protected bool
}

// Asset is a file or folder to upload.
type Asset struct {
	Name   string // for display: Submit/Code
	Path   string
	Zip    bool
	Bucket string // with ${AWS::AccountId} and ${AWS::Region}
	Key    string

	body []byte // replaces the file at Path, if not nil
}

// ErrAssembly means that a folder does not contain the output of infra/.
var ErrAssembly = errors.New("deploy: not a synthesised deployment")

// manifest is the needed part of the cloud assembly's manifest (aws-cdk, cloud-assembly-schema).
type manifest struct {
	Artifacts map[string]struct {
		Type        string
		Environment string
		Properties  struct {
			TemplateFile          string
			StackName             string
			TerminationProtection bool
			File                  string
		}
	}
}

// assetFile is the manifest of a stack's assets.
type assetFile struct {
	Files map[string]struct {
		DisplayName string
		Source      struct{ Path, Packaging string }
		Destination map[string]struct{ BucketName, ObjectKey string } `json:"destinations"`
	}
}

// ReadAssembly reads a synthesised folder. It returns ErrAssembly for any other folder.
func ReadAssembly(dir string) (*Assembly, error) {
	var m manifest
	if err := readJSON(filepath.Join(dir, "manifest.json"), &m); err != nil {
		return nil, err
	}
	a := &Assembly{Dir: dir}
	for name, art := range m.Artifacts {
		if art.Type != "aws:cloudformation:stack" {
			continue
		}
		s := Stack{Name: name, Protected: art.Properties.TerminationProtection}
		if n := art.Properties.StackName; n != "" {
			s.Name = n
		}
		if _, region, ok := cutLast(art.Environment, "/"); ok && region != "unknown-region" {
			s.Region = region
		}
		if err := s.readAssets(dir, name, art.Properties.TemplateFile); err != nil {
			return nil, err
		}
		a.Stacks = append(a.Stacks, s)
	}
	if len(a.Stacks) == 0 {
		return nil, fmt.Errorf("%w: %s has no stack", ErrAssembly, dir)
	}
	// The other stacks forward notices to the first stack, whose name is a prefix of theirs.
	slices.SortFunc(a.Stacks, func(x, y Stack) int { return strings.Compare(x.Name, y.Name) })
	return a, nil
}

func cutLast(s, sep string) (before, after string, ok bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

func (s *Stack) readAssets(dir, artifact, template string) error {
	var f assetFile
	if err := readJSON(filepath.Join(dir, artifact+".assets.json"), &f); err != nil {
		return err
	}
	for _, file := range f.Files {
		for _, to := range file.Destination {
			a := Asset{
				Name: file.DisplayName, Path: filepath.Join(dir, file.Source.Path), Zip: file.Source.Packaging == "zip",
				Bucket: to.BucketName, Key: to.ObjectKey,
			}
			if file.Source.Path == template {
				s.Template = a
			} else {
				s.Assets = append(s.Assets, a)
			}
		}
	}
	if s.Template.Path == "" {
		return fmt.Errorf("%w: %s has no template of %s", ErrAssembly, dir, s.Name)
	}
	slices.SortFunc(s.Assets, func(x, y Asset) int { return strings.Compare(x.Name, y.Name) })
	return nil
}

func readJSON(path string, into any) error {
	raw, err := os.ReadFile(path) //nolint:gosec // the caller chooses the folder
	if err != nil {
		return fmt.Errorf("%w: %w", ErrAssembly, err)
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrAssembly, path, err)
	}
	return nil
}
