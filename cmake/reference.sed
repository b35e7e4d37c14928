# Doxygen gives headings other names than where Markdown is usually shown: a link to one leads to its page, and one within a
# page is its text alone.
s/\]\(([^)#]+\.md)#[^)]*\)/](\1)/g
s/\[([^]]*)\]\(#[^)]*\)/\1/g
# The examples are copied beside html/.
s|\]\(examples/|](../examples/|g
