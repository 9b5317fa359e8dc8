package command

import "context"

// App is what the commands of one run share.
type App struct {
	// Verbose says that --verbose was given.
	Verbose bool

	*Env
	Args []string // of the command line
	Stop *Interrupts
}

// New makes an App whose interrupts are counted until ctx ends.
func New(ctx context.Context, env *Env, args []string) *App {
	return &App{Env: env, Args: args, Stop: NewInterrupts(ctx, env)}
}
