mod pipelines;
mod predictions;
