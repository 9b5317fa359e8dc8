package memory_test

import (
	"context"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/cloud/remote"
	"github.com/tradewind-broker/tradewind/internal/cloud/service/memory"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/cloud/service"
	"github.com/tradewind-broker/tradewind/pkg/cloud/service/servicetest"
)

type harness struct {
	*memory.Account
	mine service.Service
}

func (h harness) Service() service.Service   { return h.mine }
func (h harness) Restarted() service.Service { return h.Deployment("mine") }
func (h harness) Sibling() service.Service   { return h.Deployment("another") }

func (h harness) Spec(name string) service.Spec {
	return service.Spec{Name: name, Region: "r", Release: "1.0", Logs: "s3://logs/", Executors: service.Executors{Min: 1, Max: 2}}
}

func (h harness) App(name string, kind servicetest.Kind) service.App {
	return service.App{Name: name, Main: "s3://code/" + string(kind), Executors: service.Executors{Min: 1, Max: 2}}
}

func outcome(app service.App) memory.Outcome {
	switch app.Main {
	case "s3://code/" + string(servicetest.Prints):
		return memory.Outcome{State: service.Succeeded, Log: service.Log{Stdout: []byte(servicetest.Hello)}}
	case "s3://code/" + string(servicetest.Fails):
		return memory.Outcome{State: service.Failed, Message: "exit code 1",
			Log: service.Log{Stderr: []byte(servicetest.Trouble)}}
	}
	return memory.Outcome{}
}

func (h harness) Fail(call servicetest.Call, err *cloud.Error) bool {
	h.Refuse(memory.Call(call), err)
	return true
}

func (h harness) FailLate(err *cloud.Error) bool {
	h.Account.FailLate(err)
	return true
}

func (h harness) LoseAnswer(call servicetest.Call) { h.Lose(memory.Call(call)) }

func (h harness) Kill(place string) bool {
	h.Account.Kill(place, &cloud.Error{Kind: cloud.Capacity, Message: "the machines were taken"})
	return true
}

func (h harness) Settle(context.Context)            { h.Step() }
func (h harness) Left(context.Context) (int, error) { return h.Account.Left(), nil }
func (h harness) Close()                            {}

func TestConformance(t *testing.T) {
	servicetest.Run(t, func(context.Context, *testing.T) (servicetest.Harness, error) {
		account := &memory.Account{Service: "memory", Run: outcome}
		return harness{account, account.Deployment("mine")}, nil
	})
}

// remoteHarness is a service whose driver runs in another process.
type remoteHarness struct{ harness }

func (h remoteHarness) remote(of service.Service) service.Service {
	server := remote.Server{Name: "aws", Services: map[string]service.Service{of.Name(): of}}
	return remote.New("aws", server.Serve).Service(of.Name())
}

func (h remoteHarness) Service() service.Service   { return h.remote(h.harness.Service()) }
func (h remoteHarness) Restarted() service.Service { return h.remote(h.harness.Restarted()) }
func (h remoteHarness) Sibling() service.Service   { return h.remote(h.harness.Sibling()) }

func TestConformanceRemote(t *testing.T) {
	servicetest.Run(t, func(context.Context, *testing.T) (servicetest.Harness, error) {
		account := &memory.Account{Service: "memory", Run: outcome}
		return remoteHarness{harness{account, account.Deployment("mine")}}, nil
	})
}
