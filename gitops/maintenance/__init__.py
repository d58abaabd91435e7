"""What is wrong in a cluster, as far as Levelgate is concerned: `facts` asks the cluster, `judge` concludes. Nothing is written."""
