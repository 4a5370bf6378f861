"""What a trained model can be asked."""
