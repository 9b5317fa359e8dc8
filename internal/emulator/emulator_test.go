package emulator_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/tradewind-broker/tradewind/internal/emulator"
)

func TestEmulatorsAnswerAWSClients(t *testing.T) {
	for name, start := range map[string]func(testing.TB) string{"DynamoDB Local": emulator.DynamoDBLocal, "moto": emulator.Moto} {
		t.Run(name, func(t *testing.T) {
			endpoint := start(t)
			if again := start(t); again != endpoint {
				t.Errorf("a second call returns %s, not %s", again, endpoint)
			}
			client := dynamodb.NewFromConfig(emulator.Config(endpoint))
			if _, err := client.ListTables(t.Context(), &dynamodb.ListTablesInput{}); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestMissingToolsAreNamed(t *testing.T) {
	t.Setenv("TRADEWIND_TOOLS", t.TempDir())
	for _, s := range []emulator.Server{emulator.DynamoDBLocalServer(), emulator.MotoServer()} {
		_, err := emulator.Start(s)
		var absent *emulator.NotInstalledError
		if !errors.As(err, &absent) || !strings.Contains(err.Error(), "make emulators") {
			t.Errorf("%s: %v, want NotInstalledError with the command to run", s.Name, err)
		}
	}
}

func TestStartReportsLogOfFailedServer(t *testing.T) {
	t.Setenv("TRADEWIND_TOOLS", t.TempDir())
	_, err := emulator.Start(emulator.Server{Name: "broken", Command: func(string, string) ([]string, error) {
		return []string{"sh", "-c", "echo no memory left; exit 3"}, nil
	}})
	if err == nil || !strings.Contains(err.Error(), "no memory left") {
		t.Errorf("Start = %v, want an error with the log", err)
	}
}

// child is an environment variable. It makes TestHost run, and its value says how TestHost's process ends.
const child = "TRADEWIND_TEST_EMULATOR_CHILD"

// TestHost runs in a process that is killed while its emulator runs. In other processes it is skipped.
func TestHost(t *testing.T) {
	if os.Getenv(child) == "" {
		t.Skip("run by TestEmulatorsEndWithTheirHost")
	}
	p, err := emulator.Start(emulator.MotoServer())
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println("endpoint", p.Endpoint)
	if os.Getenv(child) == "panic" {
		panic("like in a test")
	}
	<-t.Context().Done() // until killed
}

func TestEmulatorsEndWithTheirHost(t *testing.T) {
	emulator.Moto(t) // skips if moto is not installed
	tools, err := emulator.ToolsDir()
	if err != nil {
		t.Fatal(err)
	}
	for _, how := range []string{"panic", "kill"} {
		t.Run(how, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			host := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestHost$") //nolint:gosec // this test's own program
			host.Env = append(os.Environ(), child+"="+how, "TRADEWIND_TOOLS="+tools)
			out, err := host.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := host.Start(); err != nil {
				t.Fatal(err)
			}
			address := ""
			for lines := bufio.NewScanner(out); address == "" && lines.Scan(); {
				if _, found, ok := strings.Cut(lines.Text(), "endpoint http://"); ok {
					address = found
				}
			}
			if how == "kill" {
				_ = host.Process.Kill()
			}
			_ = host.Wait()
			if address == "" {
				t.Fatal("the host printed no endpoint")
			}
			awaitClosed(ctx, t, address)
		})
	}
}

func TestStopEndsAnEmulator(t *testing.T) {
	emulator.Moto(t)
	p, err := emulator.Start(emulator.MotoServer())
	if err != nil {
		t.Fatal(err)
	}
	if log, err := os.Stat(p.Log); err != nil || filepath.Ext(p.Log) != ".log" {
		t.Errorf("its log: %v, %v", log, err)
	}
	p.Stop()
	awaitClosed(t.Context(), t, strings.TrimPrefix(p.Endpoint, "http://"))
}

// awaitClosed waits until nothing listens at an address.
func awaitClosed(ctx context.Context, t *testing.T, address string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	for {
		c, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		if ctx.Err() != nil {
			t.Fatalf("%s still listens", address)
		}
		if err != nil {
			return
		}
		_ = c.Close()
		<-poll.C
	}
}
