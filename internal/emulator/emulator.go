package emulator

import (
	"sync"
	"testing"
)

// Required is the environment variable that turns the skipping of a test whose
// emulator is not installed into a failure, for a run that must leave nothing out.
const Required = "TRADEWIND_REQUIRE_EMULATORS"

// DynamoDBLocal returns the endpoint of DynamoDB Local: tables in memory, seen
// with any credentials and region.
func DynamoDBLocal(tb testing.TB) string {
	tb.Helper()
	return endpoint(tb, sharedDynamoDBLocal())
}

// Moto returns the endpoint of moto server, which answers for every service.
func Moto(tb testing.TB) string {
	tb.Helper()
	return endpoint(tb, sharedMoto())
}

// OwnMoto returns the endpoint of a moto server that nobody else has, until the test ends.
func OwnMoto(tb testing.TB) string {
	tb.Helper()
	own := start(MotoServer())
	if own.process != nil {
		tb.Cleanup(own.process.Stop)
	}
	return endpoint(tb, own)
}

// Once per test binary, so that a second test neither waits nor fails otherwise
// than the first.
var (
	sharedDynamoDBLocal = sync.OnceValue(func() started { return start(DynamoDBLocalServer()) })
	sharedMoto          = sync.OnceValue(func() started { return start(MotoServer()) })
)

type started struct {
	process *Process
	err     error
}

func start(s Server) started {
	p, err := Start(s)
	return started{process: p, err: err}
}
