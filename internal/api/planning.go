package api

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/tradewind-broker/tradewind/internal/api/signin"
)

// Planning serves only POST /v1/plans and POST /v1/frontiers, with the token. It is for programs that plan for a broker
// that itself plans only submitted jobs.
func Planning(token string, plan PlanFunc, frontier FrontierFunc) http.Handler {
	closed, stop := context.WithCancel(context.Background())
	stop() // no stream is served
	a := &API{
		cfg: Config{Plan: plan, Frontier: frontier}, log: slog.New(slog.DiscardHandler), mux: http.NewServeMux(),
		heavy: make(chan struct{}, maxHeavy), closed: closed, stop: stop,
	}
	user := signin.New(token)
	a.token.Store(&user)
	a.huma = newHuma(a.mux)
	a.planRoute()
	a.frontierRoutes()
	return a.mux
}
