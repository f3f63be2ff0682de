-- Is a review of a film good or bad? 2,000 reviews from newsgroups, half of each (Pang and Lee 2004, polarity dataset 2.0). A review is a
-- vector with a place for each word and each pair of words; what stands there says how often it comes and how few other reviews have it
-- (TF-IDF). One layer on it is logistic regression.
local pg = require "perigee"

-- $PERIGEE_DATA/docs/review_polarity.tar.gz, as published: a folder for each class, a file for each review. The reviews of each class, in the
-- order of their names, are cut into ten folds, as the authors do it (cv000 to cv099, ...): the fold is the test part. Words and their weights
-- are learned from the other nine and are saved with the model.
local reviews = pg.data.documents {
  pg.data_path "docs/review_polarity.tar.gz", features = "tfidf", ngrams = 2, sublinear = true, min_count = 3, max_vocabulary = 40000,
  folds = 10, fold = 10,
}

return pg.experiment {
  name = "sentiment",
  network = pg.sequential { pg.dense { 2 } },
  loss = "cross_entropy",
  optimizer = pg.adamw { lr = pg.cosine { from = 0.02 }, weight_decay = 0.01 },
  data = { train = reviews.train, test = reviews.test, batch = 60 },
  metrics = { "classification" },
  epochs = 15, seed = 1,
}
