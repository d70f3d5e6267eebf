import sys

from evenkeel.config_import import main

sys.exit(main())
