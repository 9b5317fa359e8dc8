package emulator

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Server describes an installed emulator. Make one with DynamoDBLocalServer or MotoServer.
type Server struct {
	Name    string
	Command func(tools, port string) ([]string, error) // the argument list; fails with NotInstalledError
	Env     []string                                   // in addition to the environment of this process
}

// NotInstalledError says which tool an emulator lacks.
type NotInstalledError struct{ Server, Missing string }

func (e *NotInstalledError) Error() string {
	return fmt.Sprintf("%s is not installed (no %s): run `make emulators`", e.Server, e.Missing)
}

// DynamoDBLocalServer returns Amazon's emulator of DynamoDB, in Java.
func DynamoDBLocalServer() Server {
	const name = "DynamoDB Local"
	return Server{Name: name, Command: func(tools, port string) ([]string, error) {
		java, err := exec.LookPath("java")
		if err != nil {
			return nil, &NotInstalledError{Server: name, Missing: "java"}
		}
		dir := filepath.Join(tools, "dynamodb-local")
		if _, err := os.Stat(filepath.Join(dir, "stamp")); err != nil {
			return nil, &NotInstalledError{Server: name, Missing: "jars in .tools/dynamodb-local"}
		}
		lib := filepath.Join(dir, "lib")
		// Use only the fast compiler: a test ends before the optimising one pays off.
		return []string{
			java, "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx1g", "-Djava.library.path=" + lib,
			"-cp", filepath.Join(lib, "*"), "com.amazonaws.services.dynamodbv2.local.main.ServerRunner",
			"-inMemory", "-sharedDb", "-disableTelemetry", "-port", port,
		}, nil
	}}
}

// MotoServer returns moto, in Python. env (NAME=VALUE) has moto's settings, such as
// MOTO_ACCOUNT_ID or INITIAL_NO_AUTH_ACTION_COUNT.
func MotoServer(env ...string) Server {
	const name = "moto"
	return Server{Name: name, Env: env, Command: func(tools, port string) ([]string, error) {
		venv := filepath.Join(tools, "venv")
		program := filepath.Join(venv, "bin", "moto_server")
		if _, err := os.Stat(filepath.Join(venv, "stamp")); err != nil {
			return nil, &NotInstalledError{Server: name, Missing: "Python environment in .tools/venv"}
		}
		if _, err := os.Stat(program); err != nil {
			return nil, &NotInstalledError{Server: name, Missing: program}
		}
		return []string{program, "-H", "127.0.0.1", "-p", port}, nil
	}}
}

// ToolsDir returns the folder in which `make emulators` installs: $TRADEWIND_TOOLS, or .tools in the
// nearest parent folder that contains the script.
func ToolsDir() (string, error) {
	if dir := os.Getenv("TRADEWIND_TOOLS"); dir != "" {
		return filepath.Abs(dir)
	}
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "scripts", "emulators.sh")); err == nil {
			return filepath.Join(dir, ".tools"), nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("emulator: not in the project's tree, and TRADEWIND_TOOLS is not set")
		}
		dir = parent
	}
}
