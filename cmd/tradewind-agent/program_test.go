package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// maxBytes is the maximum size of the program that machines download.
const maxBytes = 12 << 20

func TestAgentIsSmallAndStatic(t *testing.T) {
	for _, arch := range []string{"amd64", "arm64"} {
		t.Run(arch, func(t *testing.T) {
			program := filepath.Join(t.TempDir(), "tradewind-agent")
			build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", program, ".")
			build.Env = append(os.Environ(), "GOOS=linux", "GOARCH="+arch, "CGO_ENABLED=0")
			if out, err := build.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			body, err := os.ReadFile(program)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%.1f MB", float64(len(body))/(1<<20))
			if len(body) > maxBytes {
				t.Errorf("%d bytes, at most %d", len(body), maxBytes)
			}
			if bytes.Contains(body, []byte("/lib64/ld-linux")) || bytes.Contains(body, []byte("/lib/ld-linux")) {
				t.Error("it needs a dynamic linker")
			}
		})
	}
}

// An agent acts only with the broker's grants. It needs no cloud SDK, no credentials and none of the broker's code.
func TestAgentImportsNoCloudSDK(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	const here = "github.com/tradewind-broker/tradewind/"
	refused := []string{
		"github.com/aws/", "github.com/Azure/", "github.com/AzureAD/", "cloud.google.com/", "google.golang.org/", "gocloud.dev",
		"golang.org/x/oauth2", here + "internal/broker", here + "internal/cloud", here + "internal/store",
		here + "internal/grant", here + "internal/api", here + "internal/cli", here + "pkg/cloud", here + "pkg/store",
		here + "pkg/catalog", here + "internal/catalog", here + "pkg/grant/",
	}
	// A worker manages the agents of its tasks as internal/cloud/local manages processes; the others are tables of names.
	allowed := []string{"internal/cloud/local", "pkg/cloud", "internal/catalog/accel", "internal/catalog/ec2types",
		"internal/catalog/quotas"}
	for imported := range strings.Lines(string(out)) {
		imported = strings.TrimSpace(imported)
		for _, r := range refused {
			if strings.HasPrefix(imported, r) && !slices.Contains(allowed, strings.TrimPrefix(imported, here)) {
				t.Errorf("it imports %s", imported)
			}
		}
	}
}
