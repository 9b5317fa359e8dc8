// Package lambdabuild compiles the Lambda functions: one small static binary each.
package lambdabuild

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"
)

// maxBytes is the maximum size of a binary: Lambda loads it when a sandbox starts.
const maxBytes = 20 << 20

// module is this module's path.
const module = "github.com/tradewind-broker/tradewind/"

// small returns the flags that compile packages without inlining if they mostly wait for AWS or for clients. That makes
// a function two MB smaller. The packages that decide keep inlining. The last matching pattern counts.
func small() (flags []string) {
	for _, pattern := range []string{
		"github.com/...", "golang.org/...", "google.golang.org/...", "go.opentelemetry.io/...", "go.yaml.in/...",
		"crypto/ecdsa/...", "crypto/rsa/...", "crypto/tls/...", "crypto/x509/...", "encoding/asn1/...",
		"encoding/json/...", "encoding/xml/...", "fmt/...", "html/...", "log/...", "math/big/...", "mime/...",
		"net/...", "os/...", "text/...",
	} {
		flags = append(flags, "-gcflags="+pattern+"=-l")
	}
	for _, pattern := range []string{
		module + "events/...", module + "pkg/bidding/...", module + "internal/broker/...", module + "pkg/market/...",
		module + "pkg/optimizer/...", module + "pkg/scheduler/...", module + "pkg/store/...",
		"github.com/go-json-experiment/...",
	} {
		flags = append(flags, "-gcflags="+pattern+"=")
	}
	for _, pattern := range []string{module + "internal/broker/history/...", module + "internal/broker/view/..."} {
		flags = append(flags, "-gcflags="+pattern+"=-l") // printed
	}
	return flags
}

// Functions returns the names of the functions, which are the folders of functions/. It works in the project's root.
func Functions() ([]string, error) {
	found, err := filepath.Glob("functions/*/main.go")
	if err != nil || len(found) == 0 {
		return nil, fmt.Errorf("no functions/*/main.go here: run it from the project's root (%w)", err)
	}
	names := make([]string, len(found))
	for i, f := range found {
		names[i] = filepath.Base(filepath.Dir(f))
	}
	return names, nil
}

// tags leave out the RPC mode of the go1.x runtime; grpc's debug pages, whose templates make the linker keep every
// method of every type; and HTTP/2, which no service that the functions call needs.
const tags = "lambda.norpc,grpcnotrace,nethttpomithttp2"

// Build compiles a package of the module in dir into one static file. Lambda expects it to be named bootstrap.
func Build(ctx context.Context, dir, pkg, arch, file string) error {
	args := append([]string{"build", "-trimpath", "-ldflags", "-s -w", "-tags", tags}, small()...)
	file, err := filepath.Abs(file)
	if err != nil {
		return err
	}
	stamp := exec.CommandContext(ctx, "go", append(args, "-o", file, pkg)...) //nolint:gosec // packages of this module
	stamp.Dir = dir
	stamp.Env = append(os.Environ(), "GOOS=linux", "GOARCH="+arch, "CGO_ENABLED=0")
	stamp.Stdout, stamp.Stderr = os.Stderr, os.Stderr
	if err := stamp.Run(); err != nil {
		return fmt.Errorf("build %s: %w", pkg, err)
	}
	// Equal content gives an equal zip, which is not uploaded again.
	past := time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)
	return os.Chtimes(file, past, past)
}

// All compiles every function into dir/NAME/bootstrap and prints the sizes. It fails if one is too large for Lambda,
// unless anySize is set.
func All(ctx context.Context, arch, dir string, anySize bool) error {
	names, err := Functions()
	if err != nil {
		return err
	}
	var large []string
	for _, name := range names {
		file := filepath.Join(dir, name, "bootstrap")
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil { //nolint:gosec // not secret
			return err
		}
		if err := Build(ctx, ".", "./functions/"+name, arch, file); err != nil {
			return err
		}
		size, err := Bytes(file)
		if err != nil {
			return err
		}
		fmt.Printf("%-10s %5.1f MB  %s\n", name, MB(size), file)
		if size > maxBytes && !anySize {
			large = append(large, name)
		}
	}
	if len(large) > 0 {
		return fmt.Errorf("over %.0f MB: %v; `go list -deps ./functions/NAME` says what is in it",
			MB(maxBytes), slices.Sorted(slices.Values(large)))
	}
	return nil
}

// Bytes returns the size of a file.
func Bytes(file string) (int64, error) {
	info, err := os.Stat(file)
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// MB converts bytes to MiB.
func MB(bytes int64) float64 { return float64(bytes) / (1 << 20) }
