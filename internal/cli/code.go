package cli

import (
	"context"
	"path/filepath"

	"github.com/tradewind-broker/tradewind/internal/cli/jobfile"
	"github.com/tradewind-broker/tradewind/internal/cli/progress"
	"github.com/tradewind-broker/tradewind/internal/cli/text"
	"github.com/tradewind-broker/tradewind/internal/localfiles"
	"github.com/tradewind-broker/tradewind/internal/pack"
)

// packCode packs the job's code and uploads the parts that its broker lacks. The first interrupt stops it.
func (a *app) packCode(ctx context.Context, s *conn, f *jobfile.File, o pack.Options) error {
	ctx, cancel := a.Stop.Context(ctx)
	defer cancel()
	terminal := a.paintable()
	if a.Verbose {
		terminal = nil
	}
	bar := progress.NewTransfer(terminal, a.Err, a.Style(a.Err), a.glyphs(), a.Now)
	defer bar.Close()
	a.Stop.OnLeave(bar.Leave)
	return f.Pack(ctx, o, func(ctx context.Context, path string, o pack.Options) (string, error) {
		name := text.Clean(filepath.Base(path))
		var sent int64
		bar.Begin("packing " + name)
		o.Read = bar.Add
		sender := localfiles.Sender{Asker: s, Sent: func(n, of int64) {
			if n == 0 {
				bar.Begin("uploading " + name)
			}
			sent += n
			bar.Add(n, of)
		}}
		t, err := sender.Bring(ctx, path, o)
		if err != nil {
			return "", err
		}
		bar.Close()
		news := "nothing to upload"
		if sent > 0 {
			news = text.Bytes(sent) + " uploaded"
		}
		a.Tell("packed %s: %s, %s; %s", name, text.Count(t.Files(), "file"), text.Bytes(t.Bytes()), news)
		return t.URI(), nil
	})
}
