// Package servers starts the object stores on which grant's drivers are tested, as installed by scripts/emulators.sh:
// MinIO for S3, fake-gcs-server for Google Cloud Storage, Azurite for Azure Blob. If a server is not installed, the
// test is skipped with that reason.
package servers

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/tradewind-broker/tradewind/internal/emulator"
)

// The keys of the servers. Azurite's account is public and the same everywhere.
const (
	S3AccessKey  = "AKIATRADEWINDTEST"
	S3SecretKey  = "secret-of-the-tests-of-stores" //nolint:gosec // only for the duration of a test
	AzureAccount = "devstoreaccount1"
	AzureKey     = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==" //nolint:gosec // published
)

// S3 returns the endpoint of MinIO, which checks signatures, lends credentials (AWS STS) and enforces their policies.
func S3(tb testing.TB) string {
	tb.Helper()
	endpoint := start(tb, S3Server(tb.TempDir()))
	// It accepts requests before its users are initialised.
	if err := AwaitS3(tb.Context(), endpoint); err != nil {
		tb.Fatal(err)
	}
	return endpoint
}

// S3Server returns MinIO, which stores its data in a folder.
func S3Server(dir string) emulator.Server {
	return emulator.Server{Name: "minio", Command: func(tools, port string) ([]string, error) {
		program := filepath.Join(tools, "bin", "minio")
		env := []string{
			"/usr/bin/env", "MINIO_ROOT_USER=" + S3AccessKey, "MINIO_ROOT_PASSWORD=" + S3SecretKey,
			"MINIO_BROWSER=off", "MINIO_UPDATE=off", "MINIO_CI_CD=1", "HOME=" + dir,
		}
		return append(env, program, "server", "--quiet", "--address", "127.0.0.1:"+port, dir+"/data"),
			installed("minio", program)
	}}
}

// AwaitS3 waits, up to a minute, until MinIO has its users.
func AwaitS3(ctx context.Context, endpoint string) error {
	lender := sts.New(sts.Options{Region: "us-east-1", BaseEndpoint: &endpoint,
		Credentials: credentials.NewStaticCredentialsProvider(S3AccessKey, S3SecretKey, "")})
	for began := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		role := "arn:aws:iam::123456789012:role/any"
		_, err := lender.AssumeRole(ctx, &sts.AssumeRoleInput{RoleArn: &role, RoleSessionName: &role})
		if err == nil || !strings.Contains(err.Error(), "not initialized") || time.Since(began) > time.Minute {
			return err
		}
	}
}

// FakeGCS returns the endpoint of a server that does not check signatures.
func FakeGCS(tb testing.TB) string {
	tb.Helper()
	return start(tb, FakeGCSServer())
}

// FakeGCSWithPubSub is FakeGCS with buckets that publish object notifications to the Pub/Sub (gRPC) at an address.
func FakeGCSWithPubSub(tb testing.TB, pubsub string) string {
	tb.Helper()
	server := FakeGCSServer()
	server.Env = append(server.Env, "PUBSUB_EMULATOR_HOST="+pubsub)
	return start(tb, server)
}

// FakeGCSServer returns the server, which keeps objects in memory.
func FakeGCSServer() emulator.Server {
	return emulator.Server{Name: "fake-gcs-server", Command: func(tools, port string) ([]string, error) {
		program := filepath.Join(tools, "bin", "fake-gcs-server")
		return []string{
			program, "-scheme", "http", "-host", "127.0.0.1", "-port", port, "-backend", "memory",
			"-public-host", "127.0.0.1:" + port, "-log-level", "error",
		}, installed("fake-gcs-server", program)
	}}
}

// Azurite returns the endpoint of Azure Storage's emulator, without an account's name.
func Azurite(tb testing.TB) string {
	tb.Helper()
	return start(tb, AzuriteServer(tb.TempDir()))
}

// AzuriteServer returns Azure Storage's emulator, which stores its data in a folder.
func AzuriteServer(dir string) emulator.Server {
	return emulator.Server{Name: "azurite", Command: func(tools, port string) ([]string, error) {
		node, err := exec.LookPath("node")
		if err != nil {
			return nil, &emulator.NotInstalledError{Server: "azurite", Missing: "node"}
		}
		program := filepath.Join(tools, "azurite", "node_modules", "azurite", "dist", "src", "blob", "main.js")
		return []string{
			node, program, "--blobHost", "127.0.0.1", "--blobPort", port, "--location", dir, "--silent",
			"--disableTelemetry", "--skipApiVersionCheck", "--disableProductStyleUrl",
		}, installed("azurite", program)
	}}
}

func installed(server, file string) error {
	if _, err := os.Stat(file); err != nil {
		return &emulator.NotInstalledError{Server: server, Missing: file}
	}
	return nil
}

func start(tb testing.TB, server emulator.Server) string {
	tb.Helper()
	p, err := emulator.Start(server)
	var absent *emulator.NotInstalledError
	if errors.As(err, &absent) && os.Getenv(emulator.Required) == "" {
		tb.Skip(err)
	}
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(p.Stop)
	return p.Endpoint
}
