package api

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/tradewind-broker/tradewind/internal/api/signin"
)

// Planning serves POST /v1/plans and POST /v1/frontiers, and nothing else, to whoever bears the token: for programs
// that plan beside a broker that does not plan what it was not handed.
func Planning(token string, plan PlanFunc, frontier FrontierFunc) http.Handler {
	closed, stop := context.WithCancel(context.Background())
	stop() // no stream is served
	a := &API{
		cfg: Config{Plan: plan, Frontier: frontier}, log: slog.New(slog.DiscardHandler), mux: http.NewServeMux(),
		user: signin.New(token), heavy: make(chan struct{}, maxHeavy), closed: closed, stop: stop,
	}
	a.huma = newHuma(a.mux)
	a.planRoute()
	a.frontierRoutes()
	return a.mux
}
