// Command gen writes openapi.json, the OpenAPI 3.1 document of the API, from the
// code. `go generate ./internal/api` runs it. With -check it writes nothing and fails
// if the file is stale.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"

	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/api"
	"github.com/tradewind-broker/tradewind/internal/broker"
)

func main() {
	file := flag.String("file", "openapi.json", "the document")
	check := flag.Bool("check", false, "only compare, and exit with 1 if a file is stale")
	flag.Parse()
	if err := run(*file, *check); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

// nothing is a placeholder for the logs, since the API gets no requests.
type nothing struct {
	api.Logs
}

func run(file string, check bool) error {
	a, err := api.New(api.Config{ //nolint:gosec // the token cannot be used: nothing listens
		Broker: api.PortsOf(&broker.Broker{}), Logs: nothing{}, Token: "no request is ever made",
		Verify: func(string) (wire.Claims, error) { return wire.Claims{}, errors.New("never") },
	})
	if err != nil {
		return err
	}
	defer a.Close()
	document, err := a.Document()
	if err != nil {
		return err
	}
	if !check {
		return os.WriteFile(file, document, 0o600)
	}
	have, err := os.ReadFile(file) //nolint:gosec // the caller chooses the file
	if err != nil || !bytes.Equal(have, document) {
		return fmt.Errorf("%s is stale: run go generate ./internal/api", file)
	}
	return nil
}
