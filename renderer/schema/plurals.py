"""English plurals of kinds, letter for letter those of gobuffalo/flect 1.0, with which kro names CRDs.

With a different plural, a definition would yield a different CRD, so Levelgate could not adopt instances of kro.
Therefore the module keeps even flect's mistakes (`octopus`, `octupuses`). The plural differs from flect's only if flect
forms an invalid name (`Dns`, `dnsDNSes`).
"""

from __future__ import annotations

from typing import Final


def _parse_pairs(text: str) -> dict[str, str]:
    return dict(pair.split("/") for pair in text.split())


# Words whose plural also holds for compounds that end in the word (mastermouse, mastermice).
_COMPOUNDING: Final = _parse_pairs(
    """
    abuse/abuses ache/aches adieu/adieux agenda/agendas aircraft/aircraft alumna/alumnae alumnus/alumni apex/apices
    appendix/appendices aquarium/aquaria auditorium/auditoria bacillus/bacilli base/bases basis/bases beef/beef
    bison/bison blues/blues buffalo/buffaloes bureau/bureaus cactus/cacti cause/causes chassis/chassis
    child/children chive/chives clause/clauses coccus/cocci codex/codices cookie/cookies corpus/corpora
    crisis/crises criterion/criteria cruse/cruses curriculum/curriculums deer/deer differentia/differentiae
    dwarf/dwarfs ellipsis/ellipses equipment/equipment excuse/excuses fabliau/fabliaux fish/fish focus/foci
    foot/feet formula/formulas fuse/fuses ganglion/ganglia genesis/geneses genus/genera goose/geese
    graffiti/graffiti helix/helices hive/hives hoof/hoofs house/houses human/humans index/indices
    information/information jeans/jeans larva/larvae latex/latices lexicon/lexica locus/loci man/men media/media
    medium/media minutia/minutiae misuse/misuses mitochondrion/mitochondria money/money moose/moose mouse/mice
    move/moves movie/movies muse/muses news/news noumenon/noumena nucleus/nuclei oasis/oases octopus/octupuses
    pause/pauses person/people phenomenon/phenomena police/police postcava/postcavae potato/potatoes
    praecava/praecavae pretorium/pretoriums quota/quotas radius/radii radix/radices rice/rice salmon/salmon
    series/series sheep/sheep shoe/shoes shrimp/shrimp species/species stadium/stadiums swine/swine syllabus/syllabi
    symposium/symposia taxon/taxa testis/testes thesis/theses thief/thieves tomato/tomatoes tooth/teeth
    topaz/topazes trout/trout tuna/tuna uva/uvae vedalia/vedalias vertebra/vertebrae vertex/vertices vita/vitae
    vortex/vortices woman/women you/you
    """
)

# Words whose plural does not hold for compounds.
_EXACT_WORDS: Final = _parse_pairs(
    "alias/aliases axis/axes die/dice eia/eias louse/lice ox/oxen ssh/sshs tia/tias toe/toes use/uses"
)

# Alternative plurals. A kind that equals one of these plurals counts as plural already.
_SECOND_PLURALS: Final = frozenset(
    """
    adieus alumnuses apexes appendixes aquariums auditoriums beefs buffalos bureaux cactuses codexes corpuses
    curricula dwarves fishes focuses formulae ganglions helixes hooves indexes latexes lexicons locuses
    mitochondrions nucleuses octopi radiuses radixes salmons shrimps stadia swines symposiums trouts tunas vertexes
    vortexes
    """.split()
)
# Plurals that flect does not recognise as plurals, because flect forms no singular from these words.
_ONE_WAY: Final = frozenset({"medium", "ellipsis", "basis", "blues"})

# Endings in order of precedence. A word that already has the plural ending is left unchanged.
_ENDINGS: Final = tuple(
    _parse_pairs(
        """
    tive/tives eaf/eaves oaf/oaves afe/aves arf/arves rfe/rves rf/rves lf/lves fe/ves
    ay/ays ey/eys oy/oys quy/quies uy/uys y/ies eau/eaux
    bula/bulae dula/bulae lula/bulae nula/bulae vula/bulae hedron/hedra
    ium/ia seum/seums eum/ea oum/oa stracum/straca dum/da elum/ela ilum/ila olum/ola ulum/ula llum/lla ylum/yla
    imum/ima ernum/erna gnum/gna brum/bra crum/cra terum/tera serum/sera trum/tra antum/anta atum/ata entum/enta
    etum/eta itum/ita otum/ota utum/uta ctum/cta ovum/ova
    trix/trices iasis/iases mesis/meses kinesis/kineses resis/reses gnosis/gnoses opsis/opses ysis/yses
    ouse/ouses lause/lauses us/uses ch/ches io/ios sh/shes ss/sses ez/ezzes iz/izzes tz/tzes zz/zzes
    ano/anos lo/los to/tos oo/oos o/oes x/xes
    """
    ).items()
)

_IRREGULAR: Final = _COMPOUNDING | _EXACT_WORDS
_KNOWN_PLURALS: Final = _SECOND_PLURALS | {word for key, word in _IRREGULAR.items() if key not in _ONE_WAY}
# If one word is the end of another (man, human), the longer word decides.
_LONGEST_FIRST: Final = tuple(sorted(_COMPOUNDING.items(), key=lambda pair: (-len(pair[0]), pair)))


def plural(kind: str) -> str:
    """Return the plural of `kind` in lower case, such as `networkpolicies` for `NetworkPolicy`."""
    word = kind.lower()
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    if word in _KNOWN_PLURALS:
        return word
    for singular, plural_ending in (*_LONGEST_FIRST, *_ENDINGS):
        if word.endswith(plural_ending):
            return word
        if word.endswith(singular):
            return word.removesuffix(singular) + plural_ending
    return word if word.endswith("s") else f"{word}s"
