package apihost

import (
	"context"
	"net/http"

	"github.com/tradewind-broker/tradewind/internal/broker"
	"github.com/tradewind-broker/tradewind/internal/cloud/push"
	"github.com/tradewind-broker/tradewind/internal/cloud/remote"
	"github.com/tradewind-broker/tradewind/internal/dagbucket"
	"github.com/tradewind-broker/tradewind/internal/lambdahost"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/far"
)

// pushes receives the notices that clouds push. Each cloud's own function checks the token and finds the machine's
// cluster, since only it knows the cloud. If the event cannot be emitted, the cloud pushes again; it stays one event.
func pushes(s *lambdahost.Sandbox, f *broker.Functions, others far.Functions, next http.Handler) http.Handler {
	if len(s.Env.PushClouds) == 0 {
		return next
	}
	read := map[string]push.Read{}
	for _, name := range s.Env.PushClouds {
		read[name] = remote.New(name, others.Cloud(name)).Pushed
	}
	tell := func(ctx context.Context, n push.News) error {
		id, data := dagbucket.EventOf(n)
		return f.Emit(ctx, "tradewind/push", id, data)
	}
	return push.Handler{Next: next, Clouds: read, Deliver: tell, Log: s.Log}
}
