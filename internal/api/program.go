package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tradewind-broker/tradewind/internal/agent/wire"
)

// ProgramFunc returns a URL, valid for a limited time, of the agent's program with the given SHA-256 (hexadecimal).
type ProgramFunc func(ctx context.Context, sha256 string) (url string, err error)

func (a *API) programRoutes() {
	agentRoute(a, huma.Operation{
		OperationID:   "agent-program",
		Method:        http.MethodGet,
		Path:          wire.PathProgram + "{sha256}",
		Summary:       "Where a new machine fetches the agent's program",
		DefaultStatus: http.StatusTemporaryRedirect,
		Description: "The machine checks the program against this digest. The token is for this API only, and " +
			"must not " +
			"be sent to the redirect's target.",
	}, a.program)
}

type programInput struct {
	SHA256 string `path:"sha256" pattern:"^[0-9a-f]+$" minLength:"64" maxLength:"64" doc:"The program's SHA-256, hexadecimal"`
}

type programOutput struct {
	Location string `header:"Location"`
	Cache    string `header:"Cache-Control"`
}

func (a *API) program(ctx context.Context, in *programInput) (*programOutput, error) {
	if a.cfg.Program == nil {
		return nil, problem(http.StatusNotFound, "machines of this broker already have their agent")
	}
	url, err := a.cfg.Program(ctx, in.SHA256)
	return &programOutput{Location: url, Cache: "no-store"}, err
}
