package apihost

import (
	"context"
	"net/http"

	"github.com/tradewind-broker/tradewind/internal/dagbucket"
	"github.com/tradewind-broker/tradewind/internal/lambdahost"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/far"
	"github.com/tradewind-broker/tradewind/pkg/broker"
	"github.com/tradewind-broker/tradewind/pkg/cloud/push"
	"github.com/tradewind-broker/tradewind/pkg/cloud/remote"
)

// pushes takes in what clouds push: each cloud's own function checks the token and finds out whose the machine is, as
// it alone knows that cloud. What cannot be told on is pushed again, and is one event all the same.
func pushes(s *lambdahost.Sandbox, f *broker.Functions, others far.Functions, next http.Handler) http.Handler {
	if len(s.Env.PushClouds) == 0 {
		return next
	}
	read := map[string]push.Read{}
	for _, name := range s.Env.PushClouds {
		read[name] = remote.New(name, others.Cloud(name)).Pushed
	}
	tell := func(ctx context.Context, n push.News) error {
		id, data := dagbucket.Told(n)
		return f.Emit(ctx, "tradewind/push", id, data)
	}
	return push.Handler{Next: next, Clouds: read, Tell: tell, Log: s.Log}
}
