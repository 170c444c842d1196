"""Text in, latent, text out."""
