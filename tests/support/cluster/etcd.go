package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/embed"
)

// newEtcdCommand makes a single-member etcd. Its flags are named as those of
// the real one, so that either can be started by the same command line.
func newEtcdCommand() *cobra.Command {
	config := embed.NewConfig()
	config.LogLevel = "warn"
	var client, advertised, peer string
	command := &cobra.Command{
		Use:   "etcd",
		Short: "Run one etcd member until SIGTERM",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			for _, listener := range []struct {
				text string
				urls []*[]url.URL
			}{
				{client, []*[]url.URL{&config.ListenClientUrls}},
				{advertised, []*[]url.URL{&config.AdvertiseClientUrls}},
				{peer, []*[]url.URL{&config.ListenPeerUrls, &config.AdvertisePeerUrls}},
			} {
				parsed, err := url.Parse(listener.text)
				if err != nil {
					return err
				}
				for _, urls := range listener.urls {
					*urls = []url.URL{*parsed}
				}
			}
			config.InitialCluster = config.InitialClusterFromName(config.Name)
			return serveEtcd(command.Context(), config)
		},
	}
	flags := command.Flags()
	flags.StringVar(&config.Dir, "data-dir", "", "directory for the data")
	flags.StringVar(&client, "listen-client-urls", "http://127.0.0.1:2379", "URL to serve clients on")
	flags.StringVar(&advertised, "advertise-client-urls", "http://127.0.0.1:2379", "URL that clients are told")
	flags.StringVar(&peer, "listen-peer-urls", "http://127.0.0.1:0", "URL to serve peers on")
	flags.StringVar(&config.LogLevel, "log-level", config.LogLevel, "debug, info, warn or error")
	flags.BoolVar(&config.UnsafeNoFsync, "unsafe-no-fsync", false, "do not wait for the disk")
	return command
}

func serveEtcd(ctx context.Context, config *embed.Config) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	etcd, err := embed.StartEtcd(config)
	if err != nil {
		return fmt.Errorf("start etcd: %w", err)
	}
	defer etcd.Close()
	select {
	case <-etcd.Server.ReadyNotify():
	case <-etcd.Server.StopNotify():
		return errors.New("etcd stopped before it was ready")
	case <-ctx.Done():
		return nil
	}
	select {
	case err := <-etcd.Err():
		return err
	case <-ctx.Done():
		return nil
	}
}
