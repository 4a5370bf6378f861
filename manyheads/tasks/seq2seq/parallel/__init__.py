"""Networks that write all of a text at once, or in a few passes: CTC, mask-predict, latent."""
