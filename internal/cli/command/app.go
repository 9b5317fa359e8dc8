package command

import "context"

// App is the shared state of the commands of one run.
type App struct {
	// Verbose is true if --verbose was given.
	Verbose bool
	// YAML makes PrintJSON print YAML.
	YAML bool

	*Env
	Args []string // of the command line
	Stop *Interrupts
}

// New returns an App that counts interrupts until ctx ends.
func New(ctx context.Context, env *Env, args []string) *App {
	return &App{Env: env, Args: args, Stop: NewInterrupts(ctx, env)}
}
