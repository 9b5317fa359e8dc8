// Package deploytest writes small assemblies for tests of package deploy and of the
// command that uses it, in the format of the CDK with any template.
package deploytest

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// bucket is the name of the asset bucket, as in infra/.
const bucket = "tradewind-assets-${AWS::AccountId}-${AWS::Region}"

// Assembly is a folder in the format of infra/cdk.out with its agents.
type Assembly struct {
	Dir, Assets string
	name        string
	tb          testing.TB
}

// New makes the assembly of a stack without a template. Its agents have a few bytes.
func New(tb testing.TB, name string) *Assembly {
	tb.Helper()
	a := &Assembly{Dir: tb.TempDir(), Assets: tb.TempDir(), name: name, tb: tb}
	a.Agent("one")
	return a
}

// Agent replaces the agent's binary.
func (a *Assembly) Agent(content string) {
	a.tb.Helper()
	a.write(filepath.Join(a.Assets, "agent", "amd64", "tradewind-agent"), []byte(content))
}

// Template replaces the template, and the folder of its only asset, to which it refers as lambda/code.zip.
func (a *Assembly) Template(text string) {
	a.tb.Helper()
	sum := sha256.Sum256([]byte(text))
	file := a.name + ".template.json"
	a.write(filepath.Join(a.Dir, file), []byte(text))
	a.write(filepath.Join(a.Dir, "asset.code", "bootstrap"), []byte("#!/bin/sh\n"))
	a.json("manifest.json", map[string]any{"artifacts": map[string]any{
		a.name + ".assets": map[string]any{"type": "cdk:asset-manifest"},
		a.name: map[string]any{
			"type": "aws:cloudformation:stack", "environment": "aws://unknown-account/unknown-region",
			"properties": map[string]any{"templateFile": file, "terminationProtection": true},
		},
	}})
	to := func(key string) map[string]any {
		return map[string]any{"current": map[string]any{"bucketName": bucket, "objectKey": "lambda/" + key}}
	}
	a.json(a.name+".assets.json", map[string]any{"files": map[string]any{
		"template": map[string]any{"source": map[string]any{"path": file, "packaging": "file"},
			"destinations": to(hex.EncodeToString(sum[:]) + ".json")},
		"code": map[string]any{
			"displayName": "Submit/Code", "source": map[string]any{"path": "asset.code", "packaging": "zip"},
			"destinations": to("code.zip"),
		},
	}})
}

func (a *Assembly) json(name string, v any) {
	a.tb.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		a.tb.Fatal(err)
	}
	a.write(filepath.Join(a.Dir, name), raw)
}

func (a *Assembly) write(path string, raw []byte) {
	a.tb.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		a.tb.Fatal(err)
	}
	if err := os.WriteFile(path, raw, 0o700); err != nil { //nolint:gosec // a program
		a.tb.Fatal(err)
	}
}
