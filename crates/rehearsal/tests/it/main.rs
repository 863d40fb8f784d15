mod predictions;
