"""Reading of logs: files, frames and databases become batches of encoded rounds."""
