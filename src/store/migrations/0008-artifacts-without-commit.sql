-- An artifact may be reported without a commit.
ALTER TABLE artifacts ALTER COLUMN git_commit DROP NOT NULL;
